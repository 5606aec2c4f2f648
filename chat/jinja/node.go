package jinja

// expression is a node that has a value.
type expression interface{}

type (
	literal struct{ value Value }
	nameOf  struct {
		name string
		line int
	}
	listOf  struct{ items []expression }
	tupleOf struct{ items []expression }
	dictOf  struct{ keys, values []expression }
	attrOf  struct {
		of   expression
		name string
		line int
	}
	itemOf struct {
		of, index expression
		line      int
	}
	sliceOf struct {
		of         expression
		start, end expression // or nil
		step       expression // or nil
		line       int
	}
	callOf struct {
		of   expression
		args arguments
		line int
	}
	filterOf struct {
		of   expression
		name string
		args arguments
		line int
	}
	testOf struct {
		of    expression
		name  string
		args  arguments
		isNot bool
		line  int
	}
	unaryOf struct {
		operator string
		of       expression
		line     int
	}
	binaryOf struct {
		operator    string
		left, right expression
		line        int
	}
	compareOf struct {
		first expression
		rest  []comparison
		line  int
	}
	comparison struct {
		operator string
		with     expression
	}
	conditionOf struct {
		condition, then expression
		otherwise       expression // or nil
	}
)

type arguments struct {
	list  []expression
	named []namedArgument
}

type namedArgument struct {
	name  string
	value expression
}

// statement is a node that writes something or changes variables.
type statement interface{}

type (
	textNode  struct{ text string }
	printNode struct {
		value expression
		line  int
	}
	ifNode struct {
		branches  []branch
		otherwise []statement
	}
	branch struct {
		condition expression
		body      []statement
	}
	forNode struct {
		targets   []string
		in        expression
		condition expression // or nil
		body      []statement
		otherwise []statement
		line      int
	}
	setNode struct {
		targets []target
		value   expression
		line    int
	}
	target struct {
		name, attribute string // attribute: of a namespace
	}
	setBlockNode struct {
		to   target
		body []statement
		line int
	}
	macroNode struct {
		name       string
		parameters []string
		defaults   map[string]expression
		body       []statement
	}
	generationNode struct{ body []statement }
	breakNode      struct{}
	continueNode   struct{}
)
