package images

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// module writes a module with a program into a new directory.
func module(t *testing.T, source string) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), []byte("module example.com/x\n\ngo 1.26.0\n"))
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "run", "main.go"), []byte(source))
	return root
}

func TestCompile_IsReproducible(t *testing.T) {
	platform := "linux/" + runtime.GOARCH
	compileAs := func(root string, local bool) (string, error) {
		to := filepath.Join(t.TempDir(), "new", "run")
		return to, Compile(t.Context(), Program{Root: root, Source: "./run", Platform: platform, Version: "v1", Local: local, To: to})
	}
	compile := func(root string) (string, error) { return compileAs(root, false) }
	t.Run("other directory and environment: same bytes", func(t *testing.T) {
		first, err := compile(module(t, "package main\n\nfunc main() { panic(1) }\n"))
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOFLAGS", "-race -tags=x")
		t.Setenv("GOAMD64", "v3")
		second, err := compile(module(t, "package main\n\nfunc main() { panic(1) }\n"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := os.ReadFile(first)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(second)
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Error("the programs differ")
		}
		if err := checkProgram(first, platform); err != nil {
			t.Error(err)
		}
	})
	t.Run("local build: contains the directory of the source", func(t *testing.T) {
		for _, local := range []bool{true, false} {
			root := module(t, "package main\n\nfunc main() { panic(1) }\n")
			file, err := compileAs(root, local)
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if told := bytes.Contains(content, []byte(root)); told != local {
				t.Errorf("local %t: the program contains the source's directory: %t", local, told)
			}
		}
	})
	t.Run("compiler fails: error contains its output", func(t *testing.T) {
		_, err := compile(module(t, "package main\n\nfunc main() { undefined() }\n"))
		wants(t, err, "undefined: undefined")
	})
	t.Run("invalid platform: error", func(t *testing.T) {
		wants(t, Compile(t.Context(), Program{Platform: "amd64"}), `"amd64" is not a valid platform`)
	})
	t.Run("Go is missing: error names the remedy", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := compile(t.TempDir())
		wants(t, err, "Go is not installed: install it, or pass directories with built programs")
	})
}
