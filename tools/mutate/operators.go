package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// A form is how a program can have a change and not have it, until it is told.
type form int

const (
	expression form = iota // func() T { if it is on { return the changed one }; return the other }()
	statement              // if it is on { the changed one } else { the other }
	probe                  // nothing is changed: it tells that a func was reached
)

// A change is what an operator does at one place.
type change struct {
	pkg, file string // the folder of the package, and the file in it
	fn        string // the func, such as "gate.Gate.Enter"; empty outside of any
	line      int
	from, to  int // bytes of the file
	with      string

	form   form
	lo, hi int    // the expression or the statement that is there twice: from and to are within
	typ    string // of the expression
	id     int    // in the sample
}

func (c *change) path() string { return c.pkg + "/" + c.file }

// swaps are the operators that replace a token: the boundary of a comparison, its negation, and the like.
var swaps = map[token.Token][]string{
	token.LSS:  {"<=", ">="},
	token.LEQ:  {"<", ">"},
	token.GTR:  {">=", "<="},
	token.GEQ:  {">", "<"},
	token.EQL:  {"!="},
	token.NEQ:  {"=="},
	token.LAND: {"||"},
	token.LOR:  {"&&"},
	token.ADD:  {"-"},
	token.SUB:  {"+"},
	token.MUL:  {"/"},
	token.QUO:  {"*"},
	token.REM:  {"*"},
}

// An operator walks over one file, and collects its changes.
type operator struct {
	set   *token.FileSet
	info  *types.Info
	names types.Qualifier
	base  change // of this file
	list  []*change
}

// operate returns what the operators change in a file:
//
//   - a comparison is shifted by one, or negated; && and || change places, and +, -, * and /, and ++ and --
//   - a ! is left out; a condition of if and case is true, or false, whatever it finds
//   - an integer is one more, or one less
//   - a statement is left out: a call, defer, go, an assignment, break, continue
//   - a result is nil in place of an error or of what else can be nil, 0, "", or the opposite
//   - a func that makes a value of another one of its type returns that
//
// A number in a time.Duration stays as it is, and so does a constant one; and comparisons of two are negated, not
// shifted by a nanosecond: no test asserts a time. A panic stays, too: neither whether it panics there nor what it says
// is anybody's contract. For with a condition that is always true would only hang.
//
// A statement that only logs stays, and so does the condition of one: what a log line says is for a person. These are
// the arid nodes of Petrović and Ivanković, State of Mutation Testing at Google, ICSE-SEIP 2018.
func operate(set *token.FileSet, file *ast.File, info *types.Info, base change) []*change {
	o := &operator{set: set, info: info, base: base}
	imported := make(map[string]string)
	for _, spec := range file.Imports {
		if name := info.PkgNameOf(spec); name != nil {
			imported[name.Imported().Path()] = name.Name()
		}
	}
	// What is not imported has no name here: it is of this package, or the code is refused later.
	o.names = func(p *types.Package) string { return imported[p.Path()] }
	for _, decl := range file.Decls {
		o.base.fn = ""
		if f, is := decl.(*ast.FuncDecl); is {
			if f.Body == nil {
				continue
			}
			o.base.fn = base.pkg + "." + funcName(f)
			o.addForm(probe, f.Body.Lbrace+1, f.Body.Lbrace+1, f.Body.Lbrace+1, f.Body.Lbrace+1, "", "")
		}
		o.walk(decl)
	}
	slices.SortStableFunc(o.list, func(a, b *change) int { return a.from - b.from })
	return o.list
}

// funcName is Func, or Type.Method.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

func (o *operator) offset(p token.Pos) int { return o.set.Position(p).Offset }

func (o *operator) addForm(f form, lo, hi, from, to token.Pos, with, typ string) {
	c := o.base
	c.form, c.lo, c.hi, c.from, c.to, c.with = f, o.offset(lo), o.offset(hi), o.offset(from), o.offset(to), with
	c.line, c.typ = o.set.Position(from).Line, typ
	o.list = append(o.list, &c)
}

// expr adds a change of a part of an expression.
func (o *operator) expr(e ast.Expr, from, to token.Pos, with string) {
	if t := o.info.TypeOf(e); t != nil {
		o.addForm(expression, e.Pos(), e.End(), from, to, with, types.TypeString(types.Default(t), o.names))
	}
}

// stmt adds a change of a part of a statement.
func (o *operator) stmt(s ast.Stmt, from, to token.Pos, with string) {
	o.addForm(statement, s.Pos(), s.End(), from, to, with, "")
}

func (o *operator) forced(cond ast.Expr, values ...string) {
	for _, value := range values {
		o.expr(cond, cond.Pos(), cond.End(), value) // see changed
	}
}

// walk looks at everything in a declaration.
func (o *operator) walk(decl ast.Decl) {
	var results []*types.Tuple // of the funcs around
	var stack []ast.Node
	ast.Inspect(decl, func(node ast.Node) bool {
		if node == nil {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			switch last.(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				results = results[:len(results)-1]
			}
			return true
		}
		var parent ast.Node
		if len(stack) > 0 {
			parent = stack[len(stack)-1]
		}
		stack = append(stack, node)
		switch n := node.(type) {
		case *ast.FuncDecl:
			results = append(results, o.info.Defs[n.Name].Type().(*types.Signature).Results())
		case *ast.FuncLit:
			results = append(results, o.info.TypeOf(n).(*types.Signature).Results())
		case *ast.BinaryExpr:
			o.swapped(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				o.expr(n, n.OpPos, n.OpPos+1, "")
			}
		case *ast.BasicLit:
			o.number(n)
		case *ast.CallExpr:
			o.applied(n)
		case *ast.IfStmt:
			if o.onlyLogs(n.Body) && n.Else == nil {
				stack = stack[:len(stack)-1]
				return false
			}
			o.forced(n.Cond, "true", "false")
		case *ast.ForStmt:
			if n.Cond != nil {
				o.forced(n.Cond, "false")
			}
		case *ast.SwitchStmt:
			if n.Tag != nil {
				break
			}
			for _, clause := range n.Body.List {
				for _, cond := range clause.(*ast.CaseClause).List {
					o.forced(cond, "true", "false")
				}
			}
		}
		if s, is := node.(ast.Stmt); is && inList(parent) {
			var of *types.Tuple
			if len(results) > 0 {
				of = results[len(results)-1]
			}
			if !o.statement(s, of) {
				stack = stack[:len(stack)-1]
				return false
			}
		}
		return true
	})
}

// onlyLogs reports whether s calls methods of a *slog.Logger, and does nothing else.
func (o *operator) onlyLogs(s ast.Stmt) bool {
	switch n := s.(type) {
	case *ast.BlockStmt:
		return len(n.List) > 0 && !slices.ContainsFunc(n.List, func(s ast.Stmt) bool { return !o.onlyLogs(s) })
	case *ast.ExprStmt:
		call, is := n.X.(*ast.CallExpr)
		if !is {
			return false
		}
		method, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return false
		}
		t := o.info.TypeOf(method.X)
		return t != nil && types.TypeString(t, nil) == "*log/slog.Logger"
	}
	return false
}

// inList reports whether a statement with this parent may be another one: that of if x := f(); x may not.
func inList(parent ast.Node) bool {
	switch parent.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

// statement adds what becomes of a statement, and reports whether to look into it.
func (o *operator) statement(s ast.Stmt, results *types.Tuple) bool {
	switch n := s.(type) {
	case *ast.ExprStmt:
		call, is := n.X.(*ast.CallExpr)
		if !is {
			break
		}
		if name, is := call.Fun.(*ast.Ident); is && name.Name == "panic" || o.onlyLogs(s) {
			return false
		}
		o.stmt(s, s.Pos(), s.End(), "")
	case *ast.IncDecStmt:
		o.stmt(s, n.TokPos, n.TokPos+2, map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok])
	case *ast.DeferStmt, *ast.GoStmt:
		o.stmt(s, s.Pos(), s.End(), "")
	case *ast.BranchStmt:
		if n.Tok == token.BREAK || n.Tok == token.CONTINUE {
			o.stmt(s, s.Pos(), s.End(), "")
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			o.stmt(s, s.Pos(), s.End(), "")
		}
	case *ast.ReturnStmt:
		if results == nil || results.Len() != len(n.Results) {
			break
		}
		for i, e := range n.Results {
			if with := o.other(e, results.At(i).Type()); with != "" {
				o.stmt(s, e.Pos(), e.End(), with)
			}
		}
	}
	return true
}

// other is what a func returns in place of an expression of that type; empty: there is nothing simple.
func (o *operator) other(e ast.Expr, of types.Type) string {
	value := o.info.Types[e].Value
	switch u := of.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0 && value != nil:
			return strconv.FormatBool(!constant.BoolVal(value))
		case u.Info()&types.IsBoolean != 0:
			if _, is := ast.Unparen(e).(*ast.BinaryExpr); is {
				return "" // its operator changes
			}
			return "!" // see changed
		case u.Info()&types.IsNumeric != 0 && (value == nil || constant.Sign(value) != 0):
			return "0"
		case u.Info()&types.IsString != 0 && (value == nil || constant.StringVal(value) != ""):
			return `""`
		}
	case *types.Pointer, *types.Slice, *types.Map, *types.Interface, *types.Signature, *types.Chan:
		if !o.info.Types[e].IsNil() {
			return "nil"
		}
	}
	return ""
}

// swapped adds what an expression of two is with other operators.
func (o *operator) swapped(n *ast.BinaryExpr) {
	swaps := swaps[n.Op]
	if o.isDuration(n.X) {
		x, y := o.info.Types[n.X].Value, o.info.Types[n.Y].Value
		switch {
		case x != nil && y != nil:
			return
		case len(swaps) == 2 && x == nil && y == nil:
			swaps = swaps[1:] // not the one that shifts it by a nanosecond
		}
	}
	for _, with := range swaps {
		o.expr(n, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with)
	}
}

// number adds an integer that is one more or one less.
func (o *operator) number(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	value, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil || o.isDuration(n) {
		return
	}
	o.expr(n, n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
	if value > 0 {
		o.expr(n, n.Pos(), n.End(), strconv.FormatInt(value-1, 10))
	}
}

// isDuration reports whether e is a time.Duration, such as 5, time.Second, and lease in 5*time.Second + lease/6.
func (o *operator) isDuration(e ast.Expr) bool {
	t := o.info.TypeOf(e)
	return t != nil && types.TypeString(t, nil) == "time.Duration"
}

// applied adds a call of one argument, and of its type, that returns the argument.
func (o *operator) applied(n *ast.CallExpr) {
	if len(n.Args) != 1 || n.Ellipsis.IsValid() || o.info.Types[n.Fun].IsType() {
		return
	}
	arg, result := o.info.TypeOf(n.Args[0]), o.info.TypeOf(n)
	if arg == nil || result == nil || !types.Identical(arg, result) {
		return
	}
	o.expr(n, n.Pos(), n.Args[0].Pos(), "(")
}

// changed returns a text with the change: all of it, or the bytes from lo to hi alone.
func (c *change) changed(text string, lo, hi int) string {
	old := text[c.from:c.to]
	with := c.with
	switch {
	case with == "true" && c.form == expression:
		with = "(" + old + ") || true"
	case with == "false" && c.form == expression:
		with = "(" + old + ") && false"
	case with == "!" && c.form == statement:
		with = "!(" + old + ")"
	}
	return text[lo:c.from] + with + text[c.to:hi]
}

// twice returns the code that has the change if it is on. other is the code without it.
func (c *change) twice(text, other string) string {
	switch c.form {
	case probe:
		return fmt.Sprintf("mutantReached(%d, %q);", c.id, c.fn)
	case statement:
		return fmt.Sprintf("if mutantOn(%d) { %s\n} else { %s\n}", c.id, c.changed(text, c.lo, c.hi), other)
	}
	return fmt.Sprintf("func() %s { if mutantOn(%d) { return %s\n}; return %s\n}()",
		c.typ, c.id, c.changed(text, c.lo, c.hi), other)
}

// switched returns the text of a file with all these changes in it. Which is on is said when the program is run.
func switched(text string, changes []*change) string {
	list := slices.Clone(changes)
	slices.SortStableFunc(list, func(a, b *change) int {
		switch {
		case a.lo != b.lo:
			return a.lo - b.lo
		case a.hi != b.hi:
			return b.hi - a.hi // the outer one first
		}
		return int(b.form) - int(a.form) // a statement is around its expression
	})
	return within(text, 0, len(text), list)
}

func within(text string, lo, hi int, list []*change) string {
	var b strings.Builder
	for len(list) > 0 {
		c, n := list[0], 1
		for n < len(list) && list[n].lo < c.hi {
			n++
		}
		b.WriteString(text[lo:c.lo])
		b.WriteString(c.twice(text, within(text, c.lo, c.hi, list[1:n])))
		lo, list = c.hi, list[n:]
	}
	b.WriteString(text[lo:hi])
	return b.String()
}

// switchSource is a file that is compiled into each package, and tells which change is on. A package may have an os or
// an atomic of its own.
const switchSource = `package %s

import (
	mutantOS "os"
	mutantStrconv "strconv"
	mutantAtomic "sync/atomic"
)

var (
	mutantNow, _ = mutantStrconv.Atoi(mutantOS.Getenv("MUTANT"))
	mutantFile   = mutantOS.Getenv("MUTANT_REACHED")
	mutantSeen   [1 << 14]mutantAtomic.Bool
)

func mutantOn(id int) bool { return mutantNow == id }

func mutantReached(probe int, name string) {
	if mutantFile == "" || mutantSeen[probe].Swap(true) {
		return
	}
	f, err := mutantOS.OpenFile(mutantFile, mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	f.WriteString(name + "\n")
	f.Close()
}
`
