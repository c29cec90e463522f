package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const intro = `# Command line

Generated from the help of the commands by ` + "`make generate`" + `.

` + "`make build`" + ` builds ` + "`bin/fleet`" + `. It joins clusters to a hub, inspects and repairs them, and delivers Bundles. It needs a
kubeconfig, as kubectl does: ` + "`--kubeconfig`, `--context`" + ` and ` + "`-n`" + ` have the same meaning. ` + "`-h`, `--help`" + ` prints the help
of each command.

* Results are printed to standard output, progress and warnings to standard error.
* ` + "`-o json`" + ` and ` + "`-o yaml`" + ` have stable field names.
* ` + "`--dry-run`" + ` prints the objects that a command would write.
* An error lists all problems that were found. Lines that begin with ` + "`fix:`" + ` say which commands correct them.
* Secrets are never arguments. They are read from standard input, files and kubeconfigs.

**A plugin of kubectl.** ` + "`make build`" + ` also writes ` + "`bin/kubectl-fleet`" + ` and ` + "`bin/kubectl_complete-fleet`" + `. With ` + "`bin`" + ` on the
PATH, ` + "`kubectl fleet clusters -A`" + ` works as ` + "`fleet clusters -A`" + `, and where the completion of kubectl is installed, it also
completes commands, flags and names of clusters after ` + "`kubectl fleet`" + `.

**Shell completion** of ` + "`fleet`" + ` itself: ` + "`source <(fleet completion bash)`" + ` for the current shell, or as the help of
[fleet completion](#fleet-completion) describes for each new one.

## Exit codes

| code | meaning |
|---|---|
| 0 | done, or done already |
| 1 | failed |
| 2 | a flag or an argument is invalid; nothing was sent |
| 3 | a check before the first change failed; nothing was changed |
| 4 | something did not happen in time; the error names it |
| 5 | the command would do harm, or the hub refused it |

Commands for Bundles, such as ` + "`fleet apply`" + `, have the exit codes of Rancher Fleet instead. Their sections name them.

## Commands

| command | purpose |
|---|---|
`

// page returns the page about a program.
func page(root *cobra.Command) string {
	root.InitDefaultCompletionCmd()
	var text strings.Builder
	text.WriteString(intro)
	commands := all(root)
	for _, command := range commands {
		fmt.Fprintf(&text, "| %s | %s |\n", link(command), cell(command.Short))
	}
	for _, command := range commands {
		section(&text, command)
	}
	return text.String()
}

// all returns the commands below a command, each before its own subcommands.
func all(parent *cobra.Command) (commands []*cobra.Command) {
	for _, command := range parent.Commands() {
		if command.Name() == "help" || command.Hidden {
			continue
		}
		commands = append(append(commands, command), all(command)...)
	}
	return commands
}

// section writes the section of a command.
func section(text *strings.Builder, command *cobra.Command) {
	fmt.Fprintf(text, "\n## %s\n\n", command.CommandPath())
	long := command.Long
	if long == "" {
		long = command.Short + "."
	}
	text.WriteString(markdown(long))
	fmt.Fprintf(text, "\n```\n%s\n```\n", command.UseLine())
	if len(command.Aliases) > 0 {
		fmt.Fprintf(text, "\nOther names: `%s`.\n", strings.Join(command.Aliases, "`, `"))
	}
	if below := command.Commands(); len(below) > 0 {
		links := make([]string, 0, len(below))
		for _, subcommand := range below {
			links = append(links, link(subcommand))
		}
		fmt.Fprintf(text, "\nSubcommands: %s.\n", strings.Join(links, ", "))
	}
	if command.Example != "" {
		fmt.Fprintf(text, "\nExamples:\n\n```\n%s\n```\n", unindent(command.Example))
	}
	for i, flag := range flagsOf(command) {
		if i == 0 {
			text.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		}
		row(text, flag)
	}
}

// link returns a link to the section of a command.
func link(command *cobra.Command) string {
	path := command.CommandPath()
	return fmt.Sprintf("[%s](#%s)", path, strings.ReplaceAll(path, " ", "-"))
}

// flagsOf returns the flags of a command, without those that all commands have.
func flagsOf(command *cobra.Command) (flags []*pflag.Flag) {
	command.InitDefaultHelpFlag()
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && !flag.Hidden {
			flags = append(flags, flag)
		}
	})
	return flags
}

// row writes the row of a flag.
func row(text *strings.Builder, flag *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(flag)
	name := "`--" + strings.TrimSpace(flag.Name+" "+value) + "`"
	if flag.Shorthand != "" {
		name = "`-" + flag.Shorthand + "`, " + name
	}
	fmt.Fprintf(text, "| %s | %s | %s |\n", name, defaultOf(flag), cell(usage))
}

// defaultOf returns the default value of a flag, or nothing if the flag has no effect unless it is given.
func defaultOf(flag *pflag.Flag) string {
	if slices.Contains([]string{"", "false", "0", "0s", "[]"}, flag.DefValue) {
		return ""
	}
	return "`" + flag.DefValue + "`"
}

// markdown returns a text of the help as Markdown: indented lines become a block of code.
func markdown(help string) string {
	var text strings.Builder
	var code []string
	flush := func() {
		if block := strings.TrimSpace(strings.Join(code, "\n")); block != "" {
			fmt.Fprintf(&text, "\n```\n%s\n```\n\n", unindent(strings.Join(code, "\n")))
		}
		code = nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(help), "\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") || line == "" && code != nil {
			code = append(code, line)
			continue
		}
		flush()
		text.WriteString(escape(strings.TrimLeft(line, "# ")) + "\n")
	}
	flush()
	return squeeze(text.String())
}

// squeeze leaves one empty line between paragraphs and none at the end.
func squeeze(text string) string {
	for strings.Contains(text, "\n\n\n") {
		text = strings.ReplaceAll(text, "\n\n\n", "\n\n")
	}
	return strings.TrimSpace(text) + "\n"
}

// unindent removes the indentation that all lines have in common.
func unindent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	common := -1
	for _, line := range lines {
		if indent := len(line) - len(strings.TrimLeft(line, " \t")); strings.TrimSpace(line) != "" && (common < 0 || indent < common) {
			common = indent
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[min(max(common, 0), len(line)):], " \t")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// cell returns a text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(escape(text), "|", `\|`) }

// escape keeps angle brackets from being read as HTML, except in code.
func escape(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "<", "&lt;")
	}
	return strings.Join(parts, "`")
}
