package cpu

// The AVX-512 kernels can be tested on a processor without AVX-512 by a variant
// with AVX2 instructions in place of VPDPBUSD, whose files are not kept:
//
//	cd _asm && ISA=vnniemu go run . -out ../vnniemu_amd64.s -stubs ../vnniemu_amd64.go -pkg cpu
//	go test -tags vnniemu .

//go:generate sh -c "cd _asm && go run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=vnni go run . -out ../vnni_amd64.s -stubs ../vnni_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=avx512 go run . -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=bf16 go run . -out ../bf16_amd64.s -stubs ../bf16_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && go run ./arm64 -out .. && arm64/encodings >../testdata/arm64.txt"
