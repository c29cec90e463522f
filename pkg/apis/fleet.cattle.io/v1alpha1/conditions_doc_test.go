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
	if len(conditions) != 1 || len(reasons) < 5 {
		t.Fatalf("found %d blocks of conditions and %d of reasons: the constants are read wrongly", len(conditions), len(reasons))
	}
	want := "# Conditions and reasons\n\n" +
		"What the objects report: `kubectl describe`, or `kubectl get -o yaml` under `status.conditions`. A condition that is not\n" +
		"True has a reason and a message. The message names the objects and says what to do. A condition heals by itself when its\n" +
		"cause is gone. For example:\n\n" +
		"```\n$ kubectl get clusters.fleet.cattle.io -n fleet-default east -o jsonpath='{.status.conditions[?(@.type==\"Imported\")]}'\n" +
		`{"type":"Imported","status":"False","reason":"KubeconfigMissing","message":"Secret fleet-default/east-kubeconfig does not exist: …"}` +
		"\n```\n\n## Conditions\n\n| type | meaning |\n|---|---|\n" + rows(conditions[0].constants)
	for _, block := range reasons {
		title, hint, _ := strings.Cut(block.doc, ". To see them: ")
		want += "\n## " + strings.TrimSuffix(title, ".") + "\n\n"
		if hint != "" {
			want += "```\n" + hint + "\n```\n\n"
		}
		want += "| reason | meaning, and what to do |\n|---|---|\n" + rows(block.constants)
	}
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

// documentedBlock is a block of constants, with its comment.
type documentedBlock struct {
	doc       string
	constants []documentedConstant
}

// documented reads the constants of conditions.go whose names begin with prefix, in their blocks and order.
func documented(t *testing.T, prefix string) (found []documentedBlock) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range file.Decls {
		decl, ok := declared.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		block := documentedBlock{doc: strings.Join(strings.Fields(decl.Doc.Text()), " ")}
		for _, spec := range decl.Specs {
			if constant := documentedOf(t, spec.(*ast.ValueSpec), prefix); constant.value != "" {
				block.constants = append(block.constants, constant)
			}
		}
		if len(block.constants) > 0 {
			found = append(found, block)
		}
	}
	return found
}

// documentedOf returns a constant whose name begins with prefix, or none.
func documentedOf(t *testing.T, spec *ast.ValueSpec, prefix string) documentedConstant {
	t.Helper()
	name := spec.Names[0].Name
	if !strings.HasPrefix(name, prefix) || len(spec.Values) == 0 {
		return documentedConstant{}
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return documentedConstant{}
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	meaning := strings.Join(strings.Fields(spec.Doc.Text()), " ")
	meaning = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(meaning, name), " means that "), ", ")
	if meaning == "" {
		t.Errorf("%s has no sentence", name)
	}
	return documentedConstant{value, meaning}
}

func rows(constants []documentedConstant) string {
	var text strings.Builder
	for _, c := range constants {
		text.WriteString("| `" + c.value + "` | " + c.meaning + " |\n")
	}
	return text.String()
}
