package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
)

func program() *cobra.Command {
	root := cli.New(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" })
	root.InitDefaultCompletionCmd()
	return root
}

// sections returns the text of docs/cli.md before the first command, and that of each command by its path.
func sections(t *testing.T) (intro string, byCommand map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n## fleet ")
	byCommand = map[string]string{}
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		byCommand["fleet "+name] = rest
	}
	return parts[0], byCommand
}

func TestPage_HasEveryCommandFlagAndExample(t *testing.T) {
	intro, found := sections(t)
	commands := 0
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		if command.Hidden { // a job of Rancher Fleet's charts
			return
		}
		for _, below := range command.Commands() {
			visit(below)
		}
		if !command.HasParent() || command.Name() == "help" {
			return
		}
		commands++
		path := command.CommandPath()
		text, ok := found[path]
		if !ok || !strings.Contains(intro, "["+path+"](#") {
			t.Errorf("docs/cli.md has no %s: run make generate", path)
			return
		}
		want := []string{command.UseLine(), command.Short}
		for line := range strings.Lines(command.Example) {
			want = append(want, strings.TrimSpace(line))
		}
		for _, part := range want {
			if !strings.Contains(intro+text, part) {
				t.Errorf("docs/cli.md: %s lacks %q: run make generate", path, part)
			}
		}
		checkFlags(t, path, text, command)
	}
	visit(program())
	if commands < 15 || commands != len(found) {
		t.Errorf("there are %d commands, and docs/cli.md has %d", commands, len(found))
	}
}

func checkFlags(t *testing.T, path, text string, command *cobra.Command) {
	t.Helper()
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		row := regexp.MustCompile("(?m)^\\| (`-[a-zA-Z]`, )?`--" + regexp.QuoteMeta(flag.Name) + "[ `].*$").FindString(text)
		switch {
		case flag.Name == "help" || flag.Hidden:
		case row == "":
			t.Errorf("docs/cli.md: %s lacks --%s: run make generate", path, flag.Name)
		case flag.Shorthand != "" && !strings.HasPrefix(row, "| `-"+flag.Shorthand+"`, "):
			t.Errorf("docs/cli.md: %s --%s lacks -%s", path, flag.Name, flag.Shorthand)
		case defaultOf(flag) != "" && !strings.Contains(row, " | `"+flag.DefValue+"` | "):
			t.Errorf("docs/cli.md: %s --%s lacks its default %s", path, flag.Name, flag.DefValue)
		}
	})
}

func TestPage_HasEveryExitCode(t *testing.T) {
	intro, _ := sections(t)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "cmd", "cli", "exit", "exit.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(node ast.Node) bool {
		constant, ok := node.(*ast.ValueSpec)
		if !ok || len(constant.Values) != 1 {
			return true
		}
		if kind, ok := constant.Type.(*ast.Ident); ok && kind.Name == "Code" {
			codes++
			value, _ := constant.Values[0].(*ast.BasicLit)
			if !strings.Contains(intro, "\n| "+value.Value+" | ") || !strings.Contains(program().Long, value.Value+" ") {
				t.Errorf("docs/cli.md or the help of fleet lacks exit code %s", value.Value)
			}
		}
		return true
	})
	if codes != 6 {
		t.Errorf("%d exit codes were found in the code", codes)
	}
}

func TestPage_DoesNotDependOnTheMachine(t *testing.T) {
	before := page(program())
	for _, variable := range []string{"HOME", "KUBECONFIG", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "NAMESPACE", "XDG_CACHE_HOME", "TMPDIR"} {
		t.Setenv(variable, "/canary")
	}
	if after := page(program()); after != before || strings.Contains(after, "canary") {
		t.Error("the page differs with other environment variables")
	}
}

func TestMarkdown(t *testing.T) {
	for name, test := range map[string]struct{ help, want string }{
		"paragraphs":            {"One\ntwo.\n\nThree.", "One\ntwo.\n\nThree.\n"},
		"indented lines":        {"States:\n  A  is a\n  B  is b\n\nMore.", "States:\n\n```\nA  is a\nB  is b\n```\n\nMore.\n"},
		"indented paragraphs":   {"Run:\n\n\ta\n\n\t  b\n\n", "Run:\n\n```\na\n\n  b\n```\n"},
		"headings":              {"#### Linux:\n\n\ta", "Linux:\n\n```\na\n```\n"},
		"brackets outside code": {"a <b> `c <d>`", "a &lt;b> `c <d>`\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := markdown(test.help); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRow(t *testing.T) {
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.BoolP("quiet", "q", false, "print a|b")
	set.String("file", "x", "read `PATH`")
	for name, want := range map[string]string{
		"quiet": "| `-q`, `--quiet` |  | print a\\|b |\n",
		"file":  "| `--file PATH` | `x` | read PATH |\n",
	} {
		var text strings.Builder
		if row(&text, set.Lookup(name)); text.String() != want {
			t.Errorf("got %q, want %q", text.String(), want)
		}
	}
}
