package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A cut is a change at a place in a file, of a mutant that was made by an operator.
type cut struct {
	from, to int // bytes
	with     string
}

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
}

// operate makes mutants of the Go files of a package by operators: a comparison is shifted by one or negated, && and ||
// change places, + and -, ++ and --; a ! is left out, a call whose result nobody wants is left out, and a func returns
// nil in place of its error. test is what must notice them.
//
// Some do not compile, such as a string less a string. Others change nothing that can be seen: that is for a person to
// say.
func operate(root, pkg, test string) ([]*Mutant, error) {
	dir := filepath.Join(root, filepath.FromSlash(pkg))
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []*Mutant
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			return nil, err
		}
		for _, c := range cuts(set, file) {
			line := 1 + strings.Count(string(text[:c.from]), "\n")
			code, _, _ := strings.Cut(string(text[c.from:c.to]), "\n")
			what := "without " + code
			if c.with != "" {
				what = code + " becomes " + c.with
			}
			all = append(all, &Mutant{
				Package: pkg, File: filepath.Base(name), Test: test, cut: &c,
				Name: fmt.Sprintf("line %d, byte %d: %s", line, c.from, what),
			})
		}
	}
	return all, nil
}

// cuts returns what the operators change in a file, in the order of the text.
func cuts(set *token.FileSet, file *ast.File) []cut {
	var list []cut
	add := func(from, to token.Pos, with string) {
		list = append(list, cut{set.Position(from).Offset, set.Position(to).Offset, with})
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			for _, with := range swaps[n.Op] {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n.OpPos, n.OpPos+1, "")
			}
		case *ast.IncDecStmt:
			with := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
			add(n.TokPos, n.TokPos+2, with)
		case *ast.ExprStmt:
			call, is := n.X.(*ast.CallExpr)
			if !is {
				break
			}
			if name, is := call.Fun.(*ast.Ident); is && name.Name == "panic" {
				return false // neither whether it panics there nor what it says is anybody's contract
			}
			add(n.Pos(), n.End(), "")
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				break
			}
			if last, is := n.Results[len(n.Results)-1].(*ast.Ident); is && last.Name == "err" {
				add(last.Pos(), last.End(), "nil")
			}
		}
		return true
	})
	slices.SortStableFunc(list, func(a, b cut) int { return a.from - b.from })
	return list
}
