package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const example = `{"title": "2 processors, 50 at once", "other": 1, "points": [
	{"clusters": 1000, "registrationsPerSecond": 25.5, "controllerCPUMillisEach": 12, "apiServerCPUMillisEach": 50, "controllerRSSMiB": 130, "apiServerRSSMiB": 900},
	{"clusters": 2000, "registrationsPerSecond": 24.5, "controllerCPUMillisEach": 13, "apiServerCPUMillisEach": 55, "controllerRSSMiB": 170, "apiServerRSSMiB": 1300}]}`

func TestCommand_DrawsAllPanels(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "growth.json"), filepath.Join(t.TempDir(), "growth.svg")
	if err := os.WriteFile(from, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := command([]string{"-from", from, "-to", to}, io.Discard); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 processors, 50 at once", "registrations per second", "CPU per registration, ms", "memory (VmRSS), MiB", "API server", "controller", ">clusters<"} {
		if !strings.Contains(string(first), want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
	decoder := xml.NewDecoder(bytes.NewReader(first))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the drawing is not XML: %v", err)
		}
	}
	if err := command([]string{"-from", from, "-to", to}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(to); !bytes.Equal(first, second) {
		t.Error("the same curve was drawn differently")
	}
}

func TestCommand_RefusesBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
	}{
		"not JSON: refused":       {"{", "parsing JSON"},
		"no points: refused":      {`{"points": []}`, "no points"},
		"another type: refused":   {`{"points": [{"clusters": "many"}]}`, "parsing JSON"},
		"an empty file: refused":  {"", "parsing JSON"},
		"one point: it is a line": {`{"points": [{"clusters": 500, "registrationsPerSecond": 20}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := filepath.Join(t.TempDir(), "growth.json")
			if err := os.WriteFile(from, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := command([]string{"-from", from, "-to", filepath.Join(t.TempDir(), "growth.svg")}, io.Discard)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, args := range map[string][]string{
		"no flags: refused": nil, "an unknown flag: refused": {"-what"},
		"no such file: refused":      {"-from", "missing.json", "-to", filepath.Join(t.TempDir(), "growth.svg")},
		"no such directory: refused": {"-from", "go.mod", "-to", "missing/growth.svg"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := command(args, io.Discard); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}
