package cloudconfig

import (
	"fmt"
	"io/fs"
)

// Limits of one text.
const (
	// MaxBytes limits the length of a text. A Secret, from which it comes, is not larger.
	MaxBytes = 1 << 20
	// MaxFiles and MaxCommands limit the lists.
	MaxFiles    = 256
	MaxCommands = 128
	// MaxArguments limits the list form of a command.
	MaxArguments = 512
	// MaxPath limits the length of a path, and maxName of each name in it.
	MaxPath = 1024
	maxName = 255
)

// Config is a parsed text.
type Config struct {
	Files    []File
	Commands []Command
}

// File is a file that has to exist before the first command runs.
type File struct {
	// Path is a clean path relative to the machine's folder.
	Path        string
	Content     []byte
	Permissions fs.FileMode
	// Line is the line of the text in which the file begins.
	Line int
}

// Command is one item of runcmd.
type Command struct {
	// Args is the command with its arguments. The string form is sh -c TEXT.
	Args []string
	// Line is the line of the text in which the command begins.
	Line int
}

// Error describes why a text is invalid. Its message contains no content of the text except paths and names of fields.
type Error struct {
	// Line is the line of the problem, from 1 on.
	Line int
	// Field is the path of the field, for example write_files[2].path. It is empty for the whole text.
	Field string
	// Problem says what is wrong and what is accepted.
	Problem string
}

// Error returns the line, the field and the problem.
func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Field, e.Problem)
}
