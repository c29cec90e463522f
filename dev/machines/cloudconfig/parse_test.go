package cloudconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse_ReturnsFilesAndCommands(t *testing.T) {
	tests := map[string]struct {
		text string
		want Config
	}{
		"only the header":             {"#cloud-config", Config{}},
		"comments":                    {"#cloud-config\n# nothing\n", Config{}},
		"header with a line of DOS":   {"#cloud-config \r\nruncmd: []\r\n", Config{}},
		"lists without a value":       {"#cloud-config\nwrite_files:\nruncmd:\n", Config{}},
		"file with default values":    {"#cloud-config\nwrite_files:\n- path: a/b\n", Config{Files: []File{{Path: "a/b", Permissions: 0o644, Line: 3}}}},
		"leading slash: same folder":  {"#cloud-config\nwrite_files:\n- {path: /etc/x, content: y}\n", Config{Files: []File{{Path: "etc/x", Content: []byte("y"), Permissions: 0o644, Line: 3}}}},
		"permissions":                 {"#cloud-config\nwrite_files:\n- {path: x, permissions: \"0600\"}\n- {path: y, permissions: '755'}\n", Config{Files: []File{{Path: "x", Permissions: 0o600, Line: 3}, {Path: "y", Permissions: 0o755, Line: 4}}}},
		"content in base64":           {"#cloud-config\nwrite_files:\n- path: x\n  encoding: base64\n  content: |\n    AAEC\n    Aw==\n", Config{Files: []File{{Path: "x", Content: []byte{0, 1, 2, 3}, Permissions: 0o644, Line: 3}}}},
		"content in b64":              {"#cloud-config\nwrite_files:\n- {path: x, content: eA==, encoding: b64}\n", Config{Files: []File{{Path: "x", Content: []byte("x"), Permissions: 0o644, Line: 3}}}},
		"content of several lines":    {"#cloud-config\nwrite_files:\n- path: x\n  content: |\n    a\n    b\n", Config{Files: []File{{Path: "x", Content: []byte("a\nb\n"), Permissions: 0o644, Line: 3}}}},
		"command as a string":         {"#cloud-config\nruncmd:\n- echo $X > y\n", Config{Commands: []Command{{Args: []string{"sh", "-c", "echo $X > y"}, Line: 3}}}},
		"command as a list":           {"#cloud-config\nruncmd:\n- [sleep, 5, \"\", 1.50, true]\n", Config{Commands: []Command{{Args: []string{"sleep", "5", "", "1.50", "true"}, Line: 3}}}},
		"commands over several lines": {"#cloud-config\n\nruncmd:\n- |\n  a\n  b\n- - c\n  - d\n", Config{Commands: []Command{{Args: []string{"sh", "-c", "a\nb\n"}, Line: 4}, {Args: []string{"c", "d"}, Line: 7}}}},
		"anchor without an alias":     {"#cloud-config\nruncmd: &x [a]\n", Config{Commands: []Command{{Args: []string{"sh", "-c", "a"}, Line: 2}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidText_IsRejectedWithItsLine(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := map[string]struct{ text, want string }{
		"empty":                           {"", "line 1: the first line must be #cloud-config"},
		"another header":                  {"#!/bin/sh\n", "line 1: the first line must be #cloud-config"},
		"header in the second line":       {"\n#cloud-config\n", "line 1: the first line must be #cloud-config"},
		"header of a template":            {"## template: jinja\n#cloud-config\n", "line 1: the first line must be #cloud-config"},
		"too long":                        {"#cloud-config\n#" + strings.Repeat("x", MaxBytes), "line 1: the text has 1048591 bytes; at most 1048576 are accepted"},
		"not UTF-8":                       {"#cloud-config\nruncmd: [\"\xff\"]\n", "line 1: the text must be UTF-8; write binary content with encoding: base64"},
		"not YAML":                        {"#cloud-config\nruncmd: [a\n", "line 2: the text is not valid YAML: did not find expected ',' or ']'"},
		"unknown alias":                   {"#cloud-config\nruncmd: *x\n", "line 1: the text is not valid YAML"},
		"two documents":                   {"#cloud-config\nruncmd: []\n---\nruncmd: []\n", "line 3: only one YAML document is accepted"},
		"second document is invalid":      {"#cloud-config\nruncmd: []\n---\n[\n", "line 5: the text is not valid YAML: did not find expected node content"},
		"a list":                          {"#cloud-config\n- a\n", "line 2: fields are expected, found a list"},
		"a string":                        {"#cloud-config\na\n", "line 2: fields are expected, found a string"},
		"unknown field":                   {"#cloud-config\nruncmd: []\nusers: []\n", `line 3: unknown field "users"; known are runcmd, write_files`},
		"unknown field of a file":         {"#cloud-config\nwrite_files:\n- path: x\n  owner: root\n", `line 4: write_files[0]: unknown field "owner"; known are content, encoding, path, permissions`},
		"long unknown field is shortened": {"#cloud-config\n" + long + ": 1\n", `line 2: unknown field "` + long[:80] + `\u2026"; known are runcmd, write_files`},
		"field is repeated":               {"#cloud-config\nruncmd: []\nruncmd: []\n", "line 3: field runcmd is repeated"},
		"field's name is a number":        {"#cloud-config\n1: []\n", "line 2: a field's name must be a string, found a number"},
		"field's name is a list":          {"#cloud-config\n? [a]\n: b\n", "line 2: a field's name must be a string, found a list"},
		"merge key":                       {"#cloud-config\n<<: {runcmd: []}\n", "line 2: a field's name must be a string, found a value with a YAML tag"},
		"files are fields":                {"#cloud-config\nwrite_files: {}\n", "line 2: write_files: a list is expected, found fields"},
		"commands are a string":           {"#cloud-config\nruncmd: a\n", "line 2: runcmd: a list is expected, found a string"},
		"file is a string":                {"#cloud-config\nwrite_files: [a]\n", "line 2: write_files[0]: fields are expected, found a string"},
		"alias as a list":                 {"#cloud-config\nwrite_files: &a []\nruncmd: *a\n", "line 3: runcmd: a list is expected, found an alias; aliases are not accepted"},
		"alias as a command":              {"#cloud-config\nruncmd: [&a x, *a]\n", "line 2: runcmd[1]: a string is expected, found an alias; aliases are not accepted"},
		"alias that contains itself":      {"#cloud-config\nruncmd: &a [*a]\n", "line 2: runcmd[0]: a string is expected, found an alias; aliases are not accepted"},
		"YAML tag":                        {"#cloud-config\nruncmd: !!set [a]\n", "line 2: runcmd: a list is expected, found a list"},
		"too many files":                  {"#cloud-config\nwrite_files: [" + strings.Repeat("1, ", MaxFiles+1) + "]\n", "line 2: write_files: 257 items; at most 256 are accepted"},
		"too many commands":               {"#cloud-config\nruncmd: [" + strings.Repeat("a, ", MaxCommands+1) + "]\n", "line 2: runcmd: 129 items; at most 128 are accepted"},
		"too many arguments":              {"#cloud-config\nruncmd: [[" + strings.Repeat("a, ", MaxArguments+1) + "]]\n", "line 2: runcmd[0]: 513 items; at most 512 are accepted"},

		"path is missing":              {"#cloud-config\nwrite_files:\n- content: x\n", "line 3: write_files[0]: path is missing"},
		"path is empty":                {"#cloud-config\nwrite_files:\n- path: \"\"\n", `line 3: write_files[0].path: "" is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path is a number":             {"#cloud-config\nwrite_files:\n- path: 1\n", "line 3: write_files[0].path: a string is expected, found a number; write other values in quotes"},
		"path is the folder":           {"#cloud-config\nwrite_files:\n- path: /\n", `line 3: write_files[0].path: "/" is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path is a dot":                {"#cloud-config\nwrite_files:\n- path: .\n", `line 3: write_files[0].path: "." is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path leaves the folder":       {"#cloud-config\nwrite_files:\n- path: a\n- path: ../x\n", `line 4: write_files[1].path: "../x" is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path leaves it later":         {"#cloud-config\nwrite_files:\n- path: /a/../../x\n", `line 3: write_files[0].path: "/a/../../x" is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path has two slashes":         {"#cloud-config\nwrite_files:\n- path: //etc/x\n", `line 3: write_files[0].path: "//etc/x" is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path is a folder":             {"#cloud-config\nwrite_files:\n- path: a/\n", `line 3: write_files[0].path: "a/" is not a clean path below the machine's folder; write it without .., . and empty names`},
		"path has a zero byte":         {"#cloud-config\nwrite_files:\n- path: \"a\\0b\"\n", `line 3: write_files[0].path: "a\x00b" contains a control character or a backslash`},
		"path has a backslash":         {"#cloud-config\nwrite_files:\n- path: 'a\\..\\b'\n", `line 3: write_files[0].path: "a\\..\\b" contains a control character or a backslash`},
		"path is too long":             {"#cloud-config\nwrite_files:\n- path: " + strings.Repeat("a/", 600) + "b\n", "line 3: write_files[0].path: the path has 1201 bytes; at most 1024 are accepted"},
		"name in the path is too long": {"#cloud-config\nwrite_files:\n- path: a/" + long + "\n", "line 3: write_files[0].path: a name in the path has 300 bytes; at most 255 are accepted"},
		"path is repeated":             {"#cloud-config\nwrite_files:\n- path: a\n- path: /a\n", `line 4: write_files[1].path: "a" is already written in line 3`},
		"permissions without quotes":   {"#cloud-config\nwrite_files:\n- path: a\n  permissions: 0644\n", "line 4: write_files[0].permissions: a string is expected, found a number; write other values in quotes"},
		"permissions are not octal":    {"#cloud-config\nwrite_files:\n- path: a\n  permissions: \"0888\"\n", `line 4: write_files[0].permissions: three octal digits in quotes are expected, for example "0640"`},
		"permissions with setuid":      {"#cloud-config\nwrite_files:\n- path: a\n  permissions: \"4755\"\n", `line 4: write_files[0].permissions: three octal digits in quotes are expected, for example "0640"`},
		"permissions are too short":    {"#cloud-config\nwrite_files:\n- path: a\n  permissions: \"7\"\n", `line 4: write_files[0].permissions: three octal digits in quotes are expected, for example "0640"`},
		"content is a number":          {"#cloud-config\nwrite_files:\n- path: a\n  content: 5\n", "line 4: write_files[0].content: a string is expected, found a number; write other values in quotes"},
		"content is not base64":        {"#cloud-config\nwrite_files:\n- path: a\n  encoding: b64\n  content: secret!\n", "line 5: write_files[0].content: the content is not valid base64"},
		"unknown encoding":             {"#cloud-config\nwrite_files:\n- path: a\n  encoding: gzip\n  content: x\n", `line 4: write_files[0].encoding: unknown encoding "gzip"; known are b64 and base64`},

		"command is empty":               {"#cloud-config\nruncmd:\n- \" \"\n", "line 3: runcmd[0]: the command is empty"},
		"command is an empty list":       {"#cloud-config\nruncmd:\n- []\n", "line 3: runcmd[0]: the command is empty"},
		"command's program is empty":     {"#cloud-config\nruncmd:\n- [\"\", a]\n", "line 3: runcmd[0]: the command is empty"},
		"command is nothing":             {"#cloud-config\nruncmd:\n- a\n-\n", "line 4: runcmd[1]: a string is expected, found nothing"},
		"command is fields":              {"#cloud-config\nruncmd:\n- a: b\n", "line 3: runcmd[0]: a string is expected, found fields"},
		"argument is a list":             {"#cloud-config\nruncmd:\n- [a, [b]]\n", "line 3: runcmd[0][1]: a string is expected, found a list"},
		"argument is nothing":            {"#cloud-config\nruncmd:\n- [a, ~]\n", "line 3: runcmd[0][1]: a string is expected, found nothing"},
		"argument has a zero byte":       {"#cloud-config\nruncmd:\n- [a, \"b\\0\"]\n", "line 3: runcmd[0][1]: a command must not contain a zero byte"},
		"argument is binary with a tag":  {"#cloud-config\nruncmd:\n- [a, !!binary eA==]\n", "line 3: runcmd[0][1]: a string is expected, found a value with a YAML tag"},
		"several problems: the first":    {"#cloud-config\nruncmd:\n- []\n- ~\nx: y\n", "line 3: runcmd[0]: the command is empty"},
		"deeply nested lists are cheap":  {"#cloud-config\nruncmd: " + strings.Repeat("[", 100_000), "line 2: the text is not valid YAML: exceeded max depth of 10000"},
		"deeply nested fields are cheap": {"#cloud-config\nruncmd: " + strings.Repeat("{a: ", 9_000) + strings.Repeat("}", 9_000) + "\n", "line 2: runcmd: a list is expected, found fields"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(test.text))
			if fmt.Sprint(err) != test.want {
				t.Errorf("got %v, error\n%v\nwant\n%s", got, err, test.want)
			}
		})
	}
}

// FuzzParse checks that whatever Parse accepts stays within the limits and below the folder, and that every error has a
// line of the text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"#cloud-config\n", "#cloud-config\nwrite_files:\n- path: a/b\n  permissions: \"0600\"\n  encoding: b64\n  content: eA==\nruncmd:\n- [a, b]\n- c d\n",
		"#cloud-config\nwrite_files:\n- path: ../x\n", "#cloud-config\nruncmd: &a [*a]\n", "#cloud-config\n<<: {}\n", "#cloud-config\n---\n---\n", "#cloud-config\nruncmd: [\"\\0\"]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := Parse(text)
		if err != nil {
			var invalid *Error
			if !errors.As(err, &invalid) || invalid.Line < 1 || invalid.Line > strings.Count(string(text), "\n")+strings.Count(string(text), "\r")+2 || invalid.Problem == "" {
				t.Errorf("error %#v", err)
			}
			return
		}
		checkConfig(t, config)
	})
}

func checkConfig(t *testing.T, config *Config) {
	t.Helper()
	if len(config.Files) > MaxFiles || len(config.Commands) > MaxCommands {
		t.Errorf("%d files, %d commands", len(config.Files), len(config.Commands))
	}
	paths := map[string]bool{}
	for _, file := range config.Files {
		if !fs.ValidPath(file.Path) || file.Path == "." || len(file.Path) > MaxPath || paths[file.Path] || file.Permissions&^fs.ModePerm != 0 || file.Line < 2 {
			t.Errorf("file %+v", file)
		}
		paths[file.Path] = true
	}
	for _, command := range config.Commands {
		if len(command.Args) == 0 || command.Args[0] == "" || len(command.Args) > MaxArguments || command.Line < 2 || strings.ContainsRune(strings.Join(command.Args, ""), 0) {
			t.Errorf("command %+v", command)
		}
	}
}
