package remedy

import (
	"regexp"
	"slices"
	"strings"
)

// Target is the kubeconfig and the context with which the user reaches a cluster. Empty fields are the defaults.
type Target struct{ Kubeconfig, Context string }

// On returns a command line that reaches the same cluster as the user: fleet, kubectl and helm get the flags of the target. A
// sentence may end with the command line, after a colon: "to leave that hub: helm uninstall …". Commands that name a kubeconfig or
// a context keep it. Other sentences and programs stay as they are.
func (t Target) On(line string) string {
	var result strings.Builder
	for _, part := range split(line) {
		result.WriteString(t.on(part))
	}
	return result.String()
}

// on adds flags after the first word of a single command.
func (t Target) on(command string) string {
	trimmed := strings.TrimLeft(command, " ")
	program, rest, _ := strings.Cut(trimmed, " ")
	contextFlag := "--context"
	switch program {
	case "kubectl", "fleet":
	case "helm":
		contextFlag = "--kube-context"
	default:
		return command
	}
	given := strings.Fields(rest)
	if slices.Contains(given, "--help") {
		return command
	}
	words := []string{program}
	if t.Kubeconfig != "" && !slices.Contains(given, "--kubeconfig") {
		words = append(words, "--kubeconfig", Quote(t.Kubeconfig))
	}
	if t.Context != "" && !slices.Contains(given, contextFlag) && !strings.HasPrefix(rest, "config ") { // kubectl config reads the file only
		words = append(words, contextFlag, Quote(t.Context))
	}
	if rest != "" {
		words = append(words, rest)
	}
	return command[:len(command)-len(trimmed)] + strings.Join(words, " ")
}

// isCommand and inSentence find a command at the start of a text, and after a colon.
var (
	isCommand  = regexp.MustCompile(`^ *(fleet|kubectl|helm)( |$)`)
	inSentence = regexp.MustCompile(`^: (fleet|kubectl|helm)( |$)`)
)

// split splits a line before and after the operators && and |, and after a colon that a command follows, except within quotes. In
// a sentence, quotes are apostrophes.
func split(line string) (parts []string) {
	quoted, start := false, 0
	cut := func(from, to int) {
		parts = append(parts, line[start:from], line[from:to])
		start = to
	}
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\'' && isCommand.MatchString(line[start:]):
			quoted = !quoted
		case quoted:
		case inSentence.MatchString(line[i:]):
			cut(i, i+2)
			i++
		case strings.HasPrefix(line[i:], "&&"):
			cut(i, i+2)
			i++
		case line[i] == '|':
			cut(i, i+1)
		}
	}
	return append(parts, line[start:])
}
