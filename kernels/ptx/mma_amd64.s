//go:build !purego

#include "textflag.h"

// func mulAddAVX(acc *[16][8]float64, a *[16][32]float64, b *[32][8]float64, k int)
// Four rows of acc at a time: each is two registers of four columns.
TEXT ·mulAddAVX(SB), NOSPLIT, $0-32
	MOVQ acc+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ k+24(FP), CX
	MOVQ $4, R8

rows:
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	MOVQ   DX, R9
	MOVQ   SI, R10
	MOVQ   CX, R11

step:
	VMOVUPD      (R9), Y8
	VMOVUPD      32(R9), Y9
	VBROADCASTSD (R10), Y10
	VBROADCASTSD 256(R10), Y11
	VBROADCASTSD 512(R10), Y12
	VBROADCASTSD 768(R10), Y13
	VFMADD231PD  Y8, Y10, Y0
	VFMADD231PD  Y9, Y10, Y1
	VFMADD231PD  Y8, Y11, Y2
	VFMADD231PD  Y9, Y11, Y3
	VFMADD231PD  Y8, Y12, Y4
	VFMADD231PD  Y9, Y12, Y5
	VFMADD231PD  Y8, Y13, Y6
	VFMADD231PD  Y9, Y13, Y7
	ADDQ         $64, R9
	ADDQ         $8, R10
	DECQ         R11
	JNZ          step

	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VMOVUPD Y4, 128(DI)
	VMOVUPD Y5, 160(DI)
	VMOVUPD Y6, 192(DI)
	VMOVUPD Y7, 224(DI)
	ADDQ    $256, DI
	ADDQ    $1024, SI
	DECQ    R8
	JNZ     rows
	VZEROUPPER
	RET

// func widenHalfAVX(dst *float64, stride uintptr, src *[32]uint32)
// Eight rows of eight binary16, each 16 bytes of src; stride is in bytes.
TEXT ·widenHalfAVX(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), AX
	MOVQ src+16(FP), SI
	MOVQ $8, CX

half:
	VCVTPH2PS    (SI), Y0
	VEXTRACTF128 $1, Y0, X1
	VCVTPS2PD    X0, Y2
	VCVTPS2PD    X1, Y3
	VMOVUPD      Y2, (DI)
	VMOVUPD      Y3, 32(DI)
	ADDQ         $16, SI
	ADDQ         AX, DI
	DECQ         CX
	JNZ          half
	VZEROUPPER
	RET

// func widenBfloatAVX(dst *float64, stride uintptr, src *[32]uint32)
TEXT ·widenBfloatAVX(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), AX
	MOVQ src+16(FP), SI
	MOVQ $8, CX

bfloat:
	VPMOVZXWD    (SI), Y0
	VPSLLD       $16, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VCVTPS2PD    X0, Y2
	VCVTPS2PD    X1, Y3
	VMOVUPD      Y2, (DI)
	VMOVUPD      Y3, 32(DI)
	ADDQ         $16, SI
	ADDQ         AX, DI
	DECQ         CX
	JNZ          bfloat
	VZEROUPPER
	RET

// func widenInt8AVX(dst *float64, stride uintptr, src *[32]uint32)
// Eight rows of sixteen signed bytes.
TEXT ·widenInt8AVX(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), AX
	MOVQ src+16(FP), SI
	MOVQ $8, CX

bytes:
	VPMOVSXBD (SI), X0
	VPMOVSXBD 4(SI), X1
	VPMOVSXBD 8(SI), X2
	VPMOVSXBD 12(SI), X3
	VCVTDQ2PD X0, Y0
	VCVTDQ2PD X1, Y1
	VCVTDQ2PD X2, Y2
	VCVTDQ2PD X3, Y3
	VMOVUPD   Y0, (DI)
	VMOVUPD   Y1, 32(DI)
	VMOVUPD   Y2, 64(DI)
	VMOVUPD   Y3, 96(DI)
	ADDQ      $16, SI
	ADDQ      AX, DI
	DECQ      CX
	JNZ       bytes
	VZEROUPPER
	RET
