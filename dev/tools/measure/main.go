// Command measure prints how large the packages of this project are, how their files depend on each other, and how long
// their functions are. Run it at the top of the checkout:
//
//	go run -C dev/tools/measure . -dir ../../.. [-o json]
//
// Generated files and tests are not counted. Test rigs (dev, e2e, and packages whose names end in "test") are counted
// apart from the product. A knot is a set of files of one package in which each file depends on each other one.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

// Package describes one package.
type Package struct {
	Path     string `json:"path"`
	Rig      bool   `json:"rig"`
	Files    int    `json:"files"`
	Lines    int    `json:"lines"`
	Exported int    `json:"exported"`
	// Knot is the number of files in the largest knot; 1 means that there is none.
	Knot int `json:"knot"`
	// KnotFiles are the names of these files.
	KnotFiles []string `json:"knotFiles,omitempty"`
}

// Functions describes the lengths of all functions of the product, in lines.
type Functions struct {
	P50     int    `json:"p50"`
	P90     int    `json:"p90"`
	P99     int    `json:"p99"`
	Longest int    `json:"longest"`
	Name    string `json:"name"`
}

// Report is the whole output.
type Report struct {
	Packages     []Package `json:"packages"`
	ProductLines int       `json:"productLines"`
	RigLines     int       `json:"rigLines"`
	Functions    Functions `json:"functions"`
}

func main() {
	dir := flag.String("dir", ".", "folder of the module")
	format := flag.String("o", "table", "table or json")
	flag.Parse()
	report, err := measure(*dir)
	if err == nil {
		err = report.write(os.Stdout, *format)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(dir string) (*Report, error) {
	fset := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Fset: fset, Dir: dir}, "./...")
	if err != nil {
		return nil, err
	}
	report := &Report{}
	var lengths []int
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		one := Package{Path: strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")}
		one.Rig = isRig(one.Path)
		var files []*ast.File
		for _, file := range p.Syntax {
			if isGenerated(file) {
				continue
			}
			files = append(files, file)
			one.Files++
			one.Lines += fset.Position(file.End()).Line
			for _, declaration := range file.Decls {
				function, ok := declaration.(*ast.FuncDecl)
				if !ok || one.Rig {
					continue
				}
				lines := fset.Position(function.End()).Line - fset.Position(function.Pos()).Line + 1
				lengths = append(lengths, lines)
				if lines > report.Functions.Longest {
					report.Functions.Longest, report.Functions.Name = lines, one.Path+"."+function.Name.Name
				}
			}
		}
		if one.Files == 0 {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			if token.IsExported(name) {
				one.Exported++
			}
		}
		one.KnotFiles = largestKnot(fset, p.TypesInfo, files)
		one.Knot = max(1, len(one.KnotFiles))
		report.Packages = append(report.Packages, one)
		if one.Rig {
			report.RigLines += one.Lines
		} else {
			report.ProductLines += one.Lines
		}
	}
	slices.Sort(lengths)
	if n := len(lengths); n > 0 {
		report.Functions.P50, report.Functions.P90, report.Functions.P99 = lengths[n/2], lengths[n*9/10], lengths[n*99/100]
	}
	sort.Slice(report.Packages, func(i, j int) bool { return report.Packages[i].Path < report.Packages[j].Path })
	return report, nil
}

func isRig(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	return top == "dev" || top == "e2e" || strings.HasSuffix(path, "test")
}

func isGenerated(file *ast.File) bool {
	return slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool {
		return group.Pos() < file.Package && strings.Contains(group.Text(), "Code generated")
	}) || ast.IsGenerated(file)
}

// largestKnot returns the names of the files in the largest strongly connected component of the files of a package.
func largestKnot(fset *token.FileSet, info *types.Info, files []*ast.File) []string {
	home := map[types.Object]*ast.File{}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok && info.Defs[name] != nil {
				home[info.Defs[name]] = file
			}
			return true
		})
	}
	uses := map[*ast.File]map[*ast.File]bool{}
	for _, file := range files {
		uses[file] = map[*ast.File]bool{}
		ast.Inspect(file, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok {
				if other := home[origin(info.Uses[name])]; other != nil && other != file {
					uses[file][other] = true
				}
			}
			return true
		})
	}
	var names []string
	for _, file := range files {
		var knot []string
		for _, other := range files {
			if other == file || reaches(uses, file, other) && reaches(uses, other, file) {
				knot = append(knot, filepath.Base(fset.Position(other.Package).Filename))
			}
		}
		if len(knot) > 1 && len(knot) > len(names) {
			names = knot
		}
	}
	return names
}

// origin returns the declaration behind an instance of a generic function or field.
func origin(object types.Object) types.Object {
	switch o := object.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return object
}

func reaches(uses map[*ast.File]map[*ast.File]bool, from, to *ast.File) bool {
	seen := map[*ast.File]bool{from: true}
	for queue := []*ast.File{from}; len(queue) > 0; queue = queue[1:] {
		for next := range uses[queue[0]] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}

func (r *Report) write(to io.Writer, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "table":
	default:
		return fmt.Errorf("unknown format %q: use table or json", format)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PACKAGE\tFILES\tLINES\tEXPORTED\tKNOT")
	for _, p := range r.Packages {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", p.Path, p.Files, p.Lines, p.Exported, p.Knot)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	f := r.Functions
	_, err := fmt.Fprintf(to, "\nproduct %d lines, rigs %d lines; functions p50 %d, p90 %d, p99 %d, longest %d (%s)\n",
		r.ProductLines, r.RigLines, f.P50, f.P90, f.P99, f.Longest, f.Name)
	return err
}
