package conditions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every reason in docs/conditions.md is used by the code, and the code uses no other reason.
func TestReasons_AreConstantsInUse(t *testing.T) {
	named, texts := givenReasons(t, filepath.Join("..", "..", "..", "..", "..", "internal"))
	for _, constant := range constants(t) {
		if !named[constant.name] {
			t.Errorf("%s is not used: delete it", constant.name)
		}
	}
	for _, text := range texts {
		t.Errorf("%s: the reason is not a constant of conditions.go", text)
	}
	if len(named) < 30 {
		t.Errorf("only %d constants are used: the code was not read", len(named))
	}
}

// givenReasons reads the code. It returns the constants of package conditions that the code names, and the places that set
// a Reason to a literal.
func givenReasons(t *testing.T, root string) (named map[string]bool, texts []string) {
	t.Helper()
	named = map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && entry.Name() == "plane" {
			return filepath.SkipDir // its pods have reasons of Kubernetes
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "conditions" {
					named[n.Sel.Name] = true
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" && isText(n.Value) {
					texts = append(texts, files.Position(n.Pos()).String())
				}
			case *ast.AssignStmt:
				if i := slices.IndexFunc(n.Lhs, isReason); i >= 0 && i < len(n.Rhs) && isText(n.Rhs[i]) {
					texts = append(texts, files.Position(n.Pos()).String())
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return named, texts
}

func isReason(left ast.Expr) bool {
	selector, ok := left.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Reason"
}

// isText reports whether an expression is a string literal that is not empty.
func isText(right ast.Expr) bool {
	literal, ok := right.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING && literal.Value != `""`
}
