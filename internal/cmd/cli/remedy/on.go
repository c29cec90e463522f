package remedy

import (
	"slices"
	"strings"
)

// Target is the kubeconfig and the context with which the user reaches a cluster. Empty fields are the defaults.
type Target struct{ Kubeconfig, Context string }

// On returns a command line that reaches the same cluster as the user: fleet, kubectl and helm get the flags of the target.
// Commands that name a context keep it. Sentences and other programs stay as they are.
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
	words := []string{program}
	if t.Kubeconfig != "" {
		words = append(words, "--kubeconfig", Quote(t.Kubeconfig))
	}
	if t.Context != "" && !slices.Contains(strings.Fields(rest), contextFlag) {
		words = append(words, contextFlag, Quote(t.Context))
	}
	if rest != "" {
		words = append(words, rest)
	}
	return command[:len(command)-len(trimmed)] + strings.Join(words, " ")
}

// split splits a command line before and after the operators && and |, except within quotes.
func split(line string) (parts []string) {
	quoted, start := false, 0
	cut := func(from, to int) {
		parts = append(parts, line[start:from], line[from:to])
		start = to
	}
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\'':
			quoted = !quoted
		case quoted:
		case strings.HasPrefix(line[i:], "&&"):
			cut(i, i+2)
			i++
		case line[i] == '|':
			cut(i, i+1)
		}
	}
	return append(parts, line[start:])
}
