package cloudconfig

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// parser collects a Config. It keeps the first problem and ignores later ones.
type parser struct {
	config  Config
	files   map[string]int // path to line
	problem *Error
}

func (p *parser) fail(node *yaml.Node, field, format string, args ...any) {
	if p.problem == nil {
		p.problem = &Error{Line: max(node.Line, 1), Field: field, Problem: fmt.Sprintf(format, args...)}
	}
}

func (p *parser) document(root *yaml.Node) {
	if root == nil || isNull(root) {
		return // a text with only comments does nothing
	}
	p.fields(root, "", map[string]func(*yaml.Node, string){
		"write_files": func(node *yaml.Node, field string) { p.list(node, field, MaxFiles, p.file) },
		"runcmd":      func(node *yaml.Node, field string) { p.list(node, field, MaxCommands, p.command) },
	})
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// fields calls the function of each field of a mapping. It rejects unknown and repeated fields.
func (p *parser) fields(node *yaml.Node, at string, known map[string]func(*yaml.Node, string)) {
	if node.Kind != yaml.MappingNode || node.ShortTag() != "!!map" {
		p.fail(node, at, "fields are expected, found %s", kindOf(node))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content) && p.problem == nil; i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := key.Value
		read, found := known[name]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			p.fail(key, at, "a field's name must be a string, found %s", kindOf(key))
		case !found:
			p.fail(key, at, "unknown field %s; known are %s", quote(name), strings.Join(sortedNames(known), ", "))
		case seen[name]:
			p.fail(key, at, "field %s is repeated", name)
		default:
			seen[name] = true
			read(value, strings.TrimPrefix(at+"."+name, "."))
		}
	}
}

// list calls item for each item of a sequence. A missing value is an empty list.
func (p *parser) list(node *yaml.Node, field string, most int, item func(*yaml.Node, string)) {
	if isNull(node) {
		return
	}
	if node.Kind != yaml.SequenceNode || node.ShortTag() != "!!seq" {
		p.fail(node, field, "a list is expected, found %s", kindOf(node))
		return
	}
	if len(node.Content) > most {
		p.fail(node.Content[most], field, "%d items; at most %d are accepted", len(node.Content), most)
		return
	}
	for i, each := range node.Content {
		if p.problem != nil {
			return
		}
		item(each, fmt.Sprintf("%s[%d]", field, i))
	}
}

// text returns the value of a string.
func (p *parser) text(node *yaml.Node, field string) string {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		p.fail(node, field, "a string is expected, found %s; write other values in quotes", kindOf(node))
		return ""
	}
	return node.Value
}

func (p *parser) file(node *yaml.Node, field string) {
	file := File{Permissions: 0o644, Line: node.Line}
	var content, encoding *yaml.Node
	p.fields(node, field, map[string]func(*yaml.Node, string){
		"path":        func(node *yaml.Node, field string) { file.Path = p.path(node, field) },
		"content":     func(node *yaml.Node, field string) { content = node },
		"encoding":    func(node *yaml.Node, field string) { encoding = node },
		"permissions": func(node *yaml.Node, field string) { file.Permissions = p.permissions(node, field) },
	})
	if p.problem == nil && file.Path == "" {
		p.fail(node, field, "path is missing")
	}
	if content != nil {
		file.Content = p.content(content, encoding, field)
	}
	if p.problem == nil {
		p.config.Files = append(p.config.Files, file)
	}
}

// path returns a clean relative path. A leading slash means the machine's folder, as in a real machine.
func (p *parser) path(node *yaml.Node, field string) string {
	text := p.text(node, field)
	relative := strings.TrimPrefix(text, "/")
	switch {
	case p.problem != nil:
	case len(text) > MaxPath:
		p.fail(node, field, "the path has %d bytes; at most %d are accepted", len(text), MaxPath)
	case relative == "" || path.Clean(relative) != relative || !fs.ValidPath(relative) || relative == ".":
		p.fail(node, field, "%s is not a clean path below the machine's folder; write it without .., . and empty names", quote(text))
	case strings.ContainsFunc(relative, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
		p.fail(node, field, "%s contains a control character or a backslash", quote(text))
	default:
		p.checkNames(node, field, relative)
	}
	return relative
}

// checkNames rejects names that no file system stores, and paths of other files.
func (p *parser) checkNames(node *yaml.Node, field, relative string) {
	for name := range strings.SplitSeq(relative, "/") {
		if len(name) > maxName {
			p.fail(node, field, "a name in the path has %d bytes; at most %d are accepted", len(name), maxName)
			return
		}
	}
	if line, found := p.files[relative]; found {
		p.fail(node, field, "%s is already written in line %d", quote(relative), line)
		return
	}
	p.files[relative] = node.Line
}

func (p *parser) permissions(node *yaml.Node, field string) fs.FileMode {
	text := p.text(node, field)
	bits, err := strconv.ParseUint(text, 8, 32)
	if p.problem == nil && (err != nil || bits > 0o777 || len(text) < 3 || len(text) > 4) {
		p.fail(node, field, `three octal digits in quotes are expected, for example "0640"`)
	}
	return fs.FileMode(bits) & fs.ModePerm
}

func (p *parser) content(node, encoding *yaml.Node, field string) []byte {
	text := p.text(node, field+".content")
	if encoding == nil {
		return []byte(text)
	}
	switch name := p.text(encoding, field+".encoding"); name {
	case "b64", "base64":
		content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			p.fail(node, field+".content", "the content is not valid base64")
		}
		return content
	default:
		p.fail(encoding, field+".encoding", "unknown encoding %s; known are b64 and base64", quote(name))
		return nil
	}
}

func (p *parser) command(node *yaml.Node, field string) {
	command := Command{Line: node.Line}
	if node.Kind == yaml.SequenceNode {
		p.list(node, field, MaxArguments, func(item *yaml.Node, field string) {
			command.Args = append(command.Args, p.argument(item, field))
		})
		if p.problem == nil && (len(command.Args) == 0 || command.Args[0] == "") {
			p.fail(node, field, "the command is empty")
		}
	} else {
		text := p.argument(node, field)
		if p.problem == nil && strings.TrimSpace(text) == "" {
			p.fail(node, field, "the command is empty")
		}
		command.Args = []string{"sh", "-c", text}
	}
	if p.problem == nil {
		p.config.Commands = append(p.config.Commands, command)
	}
}

// argument returns a string, or the text of a number or a boolean, for example of [sleep, 5].
func (p *parser) argument(node *yaml.Node, field string) string {
	switch node.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool":
	default:
		p.fail(node, field, "a string is expected, found %s", kindOf(node))
	}
	if node.Kind != yaml.ScalarNode {
		p.fail(node, field, "a string is expected, found %s", kindOf(node))
	}
	if strings.ContainsRune(node.Value, 0) {
		p.fail(node, field, "a command must not contain a zero byte")
	}
	return node.Value
}
