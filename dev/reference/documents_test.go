package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocuments_NameCommandsAndFlagsThatExist reads every command `fleet …` in the documents and the notes of the charts.
func TestDocuments_NameCommandsAndFlagsThatExist(t *testing.T) {
	top := filepath.Join("..", "..")
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "charts/*/templates/NOTES.txt", "charts/*/values.yaml"} {
		paths, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range commandsIn(string(text)) {
				found++
				if problem := checkCommand(command); problem != "" {
					t.Errorf("%s: %s: %s", strings.TrimPrefix(path, top+"/"), command, problem)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d commands were found: the documents are read wrongly", found)
	}
}

// commandsIn returns the commands in code: lines of blocks and of notes that begin with fleet, and quoted text in sentences.
func commandsIn(text string) (commands []string) {
	for _, match := range regexp.MustCompile("(?m)^[# ]*(fleet [a-z].*)$").FindAllStringSubmatch(text, -1) {
		commands = append(commands, match[1])
	}
	for _, match := range regexp.MustCompile("`(?:kubectl )?(fleet\\s[a-z][^`]*)`").FindAllStringSubmatch(text, -1) {
		commands = append(commands, strings.Join(strings.Fields(match[1]), " "))
	}
	return commands
}

// checkCommand returns what is wrong with a command, or nothing.
func checkCommand(line string) string {
	line, _, _ = strings.Cut(line, " # ")
	words := strings.Fields(regexp.MustCompile(`[|<>].*|\$\([^)]*\)|'[^']*'|\[[^\]]*\]`).ReplaceAllString(line, ""))
	command, rest, err := program().Find(words[1:])
	switch {
	case err != nil:
		return err.Error()
	case !command.HasParent():
		return "there is no such command"
	case command.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return "there is no such subcommand"
	}
	if err := command.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "needs an argument") {
		return err.Error()
	}
	return ""
}

func TestCheckCommand(t *testing.T) {
	for line, want := range map[string]string{
		"fleet clusters -A":                                 "",
		"fleet join --context west <<'JOIN'":                "",
		"fleet clusters [flags]":                            "",
		"fleet status -o json | jq .clusters.states":        "",
		"fleet import east --server https://$(address a):1": "",
		"fleet no-such":                                     `unknown command "no-such" for "fleet"`,
		"fleet token no-such":                               "there is no such subcommand",
		"fleet version --no-such":                           "unknown flag: --no-such",
	} {
		if got := checkCommand(line); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
