package cpu

// The kernels with VPDPBUSD can be tested on a processor that has none by a variant of
// those of AVX-VNNI with AVX2 instructions in its place, whose files are not kept:
//
//	cd _asm && ISA=vnniemu go run . -out ../vnniemu_amd64.s -stubs ../vnniemu_amd64.go -pkg cpu
//	go test -tags vnniemu .
//
// Beside each file that has integer kernels a table of them is written.

//go:generate sh -c "cd _asm && go run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=avxvnni go run . -out ../avxvnni_amd64.s -stubs ../avxvnni_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=vnni go run . -out ../vnni_amd64.s -stubs ../vnni_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=avx512 go run . -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && ISA=bf16 go run . -out ../bf16_amd64.s -stubs ../bf16_amd64.go -pkg cpu"
//go:generate sh -c "cd _asm && go run ./arm64 -out .. && arm64/encodings >../testdata/arm64.txt"
