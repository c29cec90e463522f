package v1alpha1

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateDocs = flag.Bool("update-docs", false, "write docs/conditions.md from conditions.go")

// The page for users is made from the constants' own sentences, so that neither can be forgotten.
func TestConditionsPageIsUpToDate(t *testing.T) {
	const page = "../../../../docs/conditions.md"
	conditions, reasons := documented(t, "Condition"), documented(t, "Reason")
	if len(conditions) < 5 || len(reasons) < 10 {
		t.Fatalf("found %d conditions and %d reasons: the constants are read wrongly", len(conditions), len(reasons))
	}
	want := "# Conditions and reasons\n\n" +
		"What the objects say of themselves: `kubectl describe`, or `kubectl get -o yaml` under `status.conditions`.\n" +
		"A condition that is not True has a reason from the second table, and a message that says what to do. It heals\n" +
		"by itself once its cause is gone.\n\n" +
		"## Conditions\n\n| type | meaning |\n|---|---|\n" + rows(conditions) +
		"\n## Reasons\n\n| reason | meaning |\n|---|---|\n" + rows(reasons)
	if *updateDocs {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/conditions.md is not what conditions.go says; run this test with -update-docs (-want +got):\n%s", diff)
	}
}

type documentedConstant struct{ value, meaning string }

// documented reads the constants of conditions.go whose names begin with prefix, in their order.
func documented(t *testing.T, prefix string) (found []documentedConstant) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) == 0 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := spec.Names[0].Name
		meaning := strings.Join(strings.Fields(spec.Doc.Text()), " ")
		meaning = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(meaning, name), " means that "), ", ")
		if meaning == "" {
			t.Errorf("%s has no sentence", name)
		}
		found = append(found, documentedConstant{value, meaning})
		return true
	})
	return found
}

func rows(constants []documentedConstant) string {
	var text strings.Builder
	for _, c := range constants {
		text.WriteString("| `" + c.value + "` | " + c.meaning + " |\n")
	}
	return text.String()
}
