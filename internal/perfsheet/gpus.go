package main

// gpu is what a vendor's documents say of a GPU. The sheet's floors rest on
// these figures and on nothing measured.
type gpu struct {
	name      string
	compute   int     // compute capability × 10
	sms       int     // streaming multiprocessors
	shared    int     // bytes of shared memory that a block may opt in to
	bandwidth float64 // bytes a second of device memory
	l2        float64 // bytes
	clock     float64 // Hz, the highest stated for plain (not tensor) work
	half      float64 // multiply-adds × 2 a second by mma on bf16 or f16 with float32 sums, dense
	int8      float64 // multiply-adds × 2 a second by mma on int8, dense
	source    string
}

// gpus are in the order of their bandwidth. Documents that state tensor peaks
// with sparsity only are halved. The clock is what their float32 peak implies:
// peak = SMs × lanes × 2 × clock, with 64 lanes on 8.0 and 128 on the others.
var gpus = []gpu{
	{name: "L4", compute: 89, sms: 58, shared: 99 << 10, bandwidth: 300e9, l2: 48 << 20, clock: 2040e6, half: 121e12, int8: 242e12,
		source: "L4 data sheet (300 GB/s, 30.3 TFLOPS float32, tensor peaks stated with sparsity); Ada architecture paper, appendix on L4 (58 SMs, 48 MB L2)"},
	{name: "RTX 4090", compute: 89, sms: 128, shared: 99 << 10, bandwidth: 1008e9, l2: 72 << 20, clock: 2520e6, half: 165.2e12, int8: 660.6e12,
		source: "Ada architecture paper, table of the RTX 4090 (128 SMs, 2520 MHz, 1008 GB/s, 72 MB L2, 165.2 TFLOPS with float32 accumulate, 660.6 TOPS int8)"},
	{name: "A100 80GB", compute: 80, sms: 108, shared: 163 << 10, bandwidth: 2039e9, l2: 40 << 20, clock: 1410e6, half: 312e12, int8: 624e12,
		source: "A100 data sheet, SXM column (2,039 GB/s, 312 TFLOPS, 624 TOPS); A100 architecture paper (108 SMs, 1410 MHz, 40 MB L2)"},
	{name: "H100", compute: 90, sms: 132, shared: 227 << 10, bandwidth: 3350e9, l2: 50 << 20, clock: 1980e6, half: 989.4e12, int8: 1978.9e12,
		source: "H100 data sheet, SXM column (3.35 TB/s, 66.9 TFLOPS float32, tensor peaks stated with sparsity); Hopper architecture paper (132 SMs, 50 MB L2). The tensor peaks are wgmma's; mma.sync, which ours use, reaches less"},
	{name: "H200", compute: 90, sms: 132, shared: 227 << 10, bandwidth: 4800e9, l2: 50 << 20, clock: 1980e6, half: 989.4e12, int8: 1978.9e12,
		source: "H200 data sheet (4.8 TB/s; the rest as H100)"},
}
