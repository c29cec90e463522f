package pack

import (
	"strings"
	"testing"
)

func FuzzOptions(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "name: a\nhelm: {values: {a: 1}}\n", "targets: [&a {nmae: x}, *a]\n", "a: &a [*a]\n", "<<: {name: x}\n",
		"helmOpOptions: {}\noverwrites: [{name: x}]\ntargets: [{overwrites: [{name: x}]}]\n", "--- a\n--- b\n", "\xff\xfe{\x00}\x00", "? [a]\n: b\n",
		"imageScans: [{image: a, tagName: b, policy: {semver: {range: x}}}]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := parseOptions(text)
		if err != nil {
			return
		}
		spec := doc.BundleSpec
		if spec.Resources != nil || spec.TargetRestrictions != nil || spec.HelmOpOptions != nil || spec.Overwrites != nil || spec.ValuesHash != "" {
			t.Error("a field that only hubs set was read")
		}
		for _, target := range doc.Targets {
			if target.Name == "" || target.Overwrites != nil {
				t.Errorf("target %+v", target)
			}
		}
		lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + strings.Count(string(text), "\u0085") +
			strings.Count(string(text), "\u2028") + strings.Count(string(text), "\u2029") + 1
		found := warningsOf(text, doc, t.TempDir()).in("fleet.yaml")
		if len(found) > maxWarnings {
			t.Errorf("%d warnings", len(found))
		}
		for _, warning := range found {
			if warning.Line > lines && !strings.ContainsRune(string(text), 0) || len(warning.Text) > 10*maxShown {
				t.Errorf("line %d of %d: %s", warning.Line, lines, warning.Text)
			}
		}
	})
}

func FuzzIgnored(f *testing.F) {
	for _, seed := range []string{"", "*.md\n", "docs/*", "[a-", "\\", "a\\ \n", "!x", "#", "/*", "\r\n"} {
		f.Add(seed, "docs")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		patterns, found, err := parseIgnored(text)
		if err != nil {
			return
		}
		if len(found) > maxWarnings {
			t.Errorf("%d warnings", len(found))
		}
		for _, pattern := range patterns {
			if pattern == "" || strings.HasPrefix(pattern, "#") || strings.ContainsAny(pattern, "\n") {
				t.Errorf("pattern %q", pattern)
			}
		}
		if isDropped := patterns.drops(name, false); isDropped && (len(patterns) == 0 || !patterns.drops(name, true)) {
			t.Errorf("the file %q is dropped, but not the folder; patterns %q", name, patterns)
		}
	})
}

func FuzzCredentialsByPath(f *testing.F) {
	f.Add([]byte("a: {username: u, password: p}"))
	f.Add([]byte("[a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const fixed = "it is not a YAML object of paths with their credentials"
		if _, err := ParseByPath(text); err != nil && err.Error() != fixed {
			t.Errorf("error %v", err)
		}
	})
}
