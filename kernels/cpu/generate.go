package cpu

//go:generate sh -c "cd _asm && go run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg cpu"
