package ptx

// class says which part of the executor runs an instruction.
type class uint8

const (
	cNop     class = iota
	cLane          // d = lane(a, b, c), any register files
	c32            // the same for frequent ones: fast32, all 32 bits
	c64            // fast64, all 64 bits
	cWide          // fastWide, 64 bits from 32
	cNarrow        // d32 = low half of a64
	cShift64       // 64 bits shifted by 32
	cSetp          // predicates from a comparison
	cSetpFast
	cSel32
	cSel64
	cPred // logic on predicates
	cCarry
	cPack
	cUnpack
	cClock
	cSpaceTest
	cActive
	cSleep
	// Those from here on may send lanes apart, end them or hold them.
	cBra
	cBrx
	cExit
	cTrap
	cBar
	// Those from here on are done by the lanes of a mask together.
	cBarWarp
	cShfl
	cVote
	cMatch
	cRedux
	cElect
	// Those from here on touch or order memory, or are of whole warps.
	cLd
	cLdParam
	cSt
	cAtom
	cFence
	cCpAsync
	cCommit
	cWait
	cLdmatrix
	cStmatrix
	cMma
)

// inst is one decoded instruction. Register operands are indices into the
// file that class and op imply.
type inst struct {
	class    class
	op       uint8
	typ      typ
	n        uint8 // elements of a vector
	space    space
	guardNeg bool
	flags    uint16
	guard    int32 // predicate, or -1
	d, e     int32 // destinations; -1 for none
	a, b, c  int32
	target   int32
	line     int32
	pc       int32
	off      int64
	x        *extra
	chk      *regCheck
}

// Flags of inst.
const (
	flagNegC      uint16 = 1 << iota // the third operand, a predicate, is negated
	flagNegA                         // so is the first
	flagNegB                         // and the second
	flagStrong                       // an access of .relaxed, .acquire, .release or .volatile
	flagRelease                      // has release order
	flagAcquire                      // has acquire order
	flagAddr32                       // the address is a 32-bit register
	flagUniform                      // the address is a constant
	flagTrans                        // ldmatrix.trans
	flagCount                        // a barrier with a thread count
	flagArrive                       // barrier.arrive
	flagReduce                       // barrier.red
	flagUnaligned                    // barrier without .aligned: lanes may come apart
	flagPair                         // shfl with a predicate
	flagSrcSize                      // cp.async with a source size
	flagSigned                       // sign extend a narrow load
)

// extra is what few instructions need.
type extra struct {
	lane    lane
	files   [4]file // of d, a, b, c
	cmp     func(a, b uint64) bool
	regs    []int32 // elements of a vector, fragments of mma
	targets []int32
	src     int32 // .loc
	text    string
	mma     *mmaShape
	atom    func(old, b, c uint64) uint64
	wide    bool // ld and st of fewer than 64 bits through 64-bit registers
	width   int  // bits of the destination register of a load
}

// ref names a register of a warp.
type ref struct {
	file file
	i    int32
}

// regCheck is what undefined-register tracking does at an instruction. It is
// nil where every source is written on every path.
type regCheck struct {
	use  []ref // report lanes that have not written these
	def  []ref // mark written
	copy []ref // sources whose state the destination takes: mov and selp may carry what is undefined
}

// program is one kernel, decoded, calls expanded in place.
type program struct {
	name         string
	code         []inst
	n32, n64, np int
	consts       []constReg
	syms         []symReg
	specials     []specialReg
	names        map[ref]string
	localBytes   int
	localVars    []span // inside a thread's local memory
	sharedVars   []sharedVar
	sharedBytes  int // static, as laid out with red zones
	sharedStatic int // static, as the hardware packs it
	dynamicAlign int
	dynamic      bool
	paramBytes   int
	params       []Param
	maxThreads   int
	sources      []string
	tracked      bool  // some instruction has a regCheck
	given        []ref // registers that have values at the start
}

type constReg struct {
	ref
	val uint64
}

type symReg struct {
	ref
	v   *variable
	add int64
}

type specialReg struct {
	ref
	sp special
}

type span struct {
	lo, hi int // bytes
	name   string
}

type sharedVar struct {
	v  *variable
	at int
}
