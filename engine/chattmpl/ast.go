package chattmpl

// Statements.
type (
	stmt interface{}

	dataStmt   struct{ s text }
	outputStmt struct{ x expr }
	forStmt    struct {
		target    target
		iter      expr
		filter    expr // or nil
		body      []stmt
		otherwise []stmt
		recursive bool
	}
	ifStmt struct {
		cond      expr
		body      []stmt
		otherwise []stmt
	}
	setStmt struct {
		target target
		x      expr
	}
	setBlockStmt struct {
		target  target
		body    []stmt
		filters []filterCall
	}
	filterStmt struct {
		filters []filterCall
		body    []stmt
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // of the last parameters
		body     []stmt
		// Names that the body reads, which make these arguments accepted.
		varargs, kwargs, caller bool
	}
	callStmt struct {
		call *callExpr
		body *macroStmt // what caller() runs
	}
	scopeStmt    struct{ body []stmt } // generation, block
	breakStmt    struct{}
	continueStmt struct{}
)

// target of an assignment: a name, an attribute of a namespace, or a tuple.
type target struct {
	name  string
	attr  string
	items []target
}

// Expressions. Each has the line it began on, for messages.
type (
	expr interface{}

	constExpr struct{ v value }
	nameExpr  struct{ name string }
	listExpr  struct {
		items []expr
		tuple bool
	}
	dictExpr struct{ keys, vals []expr }
	attrExpr struct {
		x    expr
		name string
	}
	indexExpr struct{ x, index expr }
	sliceExpr struct{ from, to, step expr } // only as an index
	callExpr  struct {
		fn   expr
		args argList
	}
	filterExpr struct {
		x expr
		f filterCall
	}
	testExpr struct {
		x    expr
		name string
		args argList
	}
	unaryExpr struct {
		op string
		x  expr
	}
	binaryExpr struct {
		op   string
		l, r expr
	}
	logicExpr struct {
		and  bool
		l, r expr
	}
	compareExpr struct {
		x    expr
		ops  []string
		rest []expr
	}
	concatExpr struct{ items []expr }
	condExpr   struct{ cond, then, otherwise expr } // otherwise may be nil
)

type argList struct {
	pos      []expr
	names    []string
	named    []expr
	star     expr
	starStar expr
}

type filterCall struct {
	name string
	args argList
	line int
}
