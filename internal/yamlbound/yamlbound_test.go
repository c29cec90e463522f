package yamlbound

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// laughs is a list of lists of lists ..., each of which refers to the one before it.
func laughs(levels, width int) string {
	var out strings.Builder
	out.WriteString("a0: &a0 [" + strings.Repeat("x,", width) + "x]\n")
	for level := range levels {
		ref := fmt.Sprintf("*a%d", level)
		fmt.Fprintf(&out, "a%d: &a%d [%s%s]\n", level+1, level+1, strings.Repeat(ref+", ", width-1), ref)
	}
	return out.String()
}

func repeated(text string, length int) string { return strings.Repeat(text, length/len(text)) }

// hostile are texts that cost more than they look.
func hostile() map[string]string {
	longText := "t: &t " + strings.Repeat("x", 100_000) + "\nl: ["
	return map[string]string{
		"aliases of aliases":           laughs(9, 9),
		"aliases in objects":           "a: &a {" + repeatedKeys(100) + "}\nb: &b {" + aliasKeys("*a", 100) + "}\nc: {" + aliasKeys("*b", 100) + "}\n",
		"merge keys":                   "a: &a {" + repeatedKeys(1000) + "}\nl:\n" + strings.Repeat("- {<<: *a}\n", 1000),
		"lists of merge keys":          "a: &a {" + repeatedKeys(1000) + "}\nl: {<<: [" + strings.Repeat("*a,", 1000) + "*a]}",
		"many aliases of a long list":  "a: &a [" + strings.Repeat("x,", 30_000) + "x]\nl: [" + strings.Repeat("*a,", 10_000) + "*a]",
		"many aliases of a long text":  longText + strings.Repeat("*t,", 10_000) + "*t]",
		"an alias within itself":       "a: &a [*a]",
		"aliases one parser refuses":   longText + strings.Repeat("*t,", 10_000) + "*t]\n--- \tq: {",
		"deep by aliases":              deepAliases(300),
		"a flat list of a megabyte":    "[" + repeated("1,", 1<<20) + "1]",
		"empty lists of a megabyte":    "[" + repeated("[],", 1<<20) + "1]",
		"objects of a megabyte":        "[" + repeated("{a},", 1<<20) + "1]",
		"lines of a megabyte":          repeated("- 1\n", 1<<20),
		"dashes of a megabyte":         repeated("-\n", 1<<20),
		"brackets of a megabyte":       repeated("[", 1<<20),
		"complex keys of a megabyte":   repeated("? ", 1<<20),
		"implicit pairs of a megabyte": "[" + repeated("a: b,", 1<<20) + "c]",
	}
}

func repeatedKeys(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "k%d: v,", i)
	}
	return out.String()
}

func aliasKeys(alias string, n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "k%d: %s,", i, alias)
	}
	return out.String()
}

func deepAliases(n int) string {
	out := "a0: &a0 [x]\n"
	for i := range n {
		out += fmt.Sprintf("a%d: &a%d [*a%d]\n", i+1, i+1, i)
	}
	return out
}

// useful are texts as users write them.
func useful() map[string]string {
	var addresses, lines strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&addresses, "- 10.%d.%d.%d\n", i>>16&255, i>>8&255, i&255)
	}
	for i := range 40_000 {
		fmt.Fprintf(&lines, "key%d: value\n", i)
	}
	return map[string]string{
		"nothing":                 "",
		"anchors and merge keys":  "base: &base {image: web, tag: 1}\nservices:\n  a: {<<: *base, tag: 2}\n  b: {<<: [*base], port: 8080}\n",
		"the same resources":      "r: &r {limits: {cpu: 1, memory: 1Gi}}\nc:\n" + strings.Repeat("- {resources: *r}\n", 1000),
		"globs and shells":        "hosts: ['*.example.com']\ncron: '*/5 * * * *'\nrun: a && b 2>&1 | tee *.log\n",
		"many addresses":          addresses.String(),
		"many keys":               lines.String(),
		"a long text":             "t: " + strings.Repeat("word ", 150_000),
		"a dashboard in one line": "d: '" + repeated(`{"title":"requests","type":"graph","w":12},`, 500_000) + "'",
		"deep":                    strings.Repeat("[", 150) + strings.Repeat("]", 150),
	}
}

func TestCheck(t *testing.T) {
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			cost := allocated(func() {
				if err := Check([]byte(text)); !errors.Is(err, ErrTooLarge) {
					t.Errorf("error = %v, want one that says that it is too large", err)
				}
			})
			if cost > 50<<20 {
				t.Errorf("%d bytes of text took %d MiB to refuse", len(text), cost>>20)
			}
		})
	}
	for name, text := range useful() {
		t.Run(name, func(t *testing.T) {
			if err := Check([]byte(text)); err != nil {
				t.Error(err)
			}
			if err := CheckManifest([]byte(text)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBudget_CoversAllTextsTogether(t *testing.T) {
	budget := Budget{Items: 10, Expanded: 20, Bytes: 100}
	for range 3 {
		if err := budget.Spend([]byte("a: [b, c]")); err != nil {
			t.Fatal(err)
		}
	}
	if err := budget.Spend([]byte("a: [b, c]")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error = %v for the fourth text of three items", err)
	}
}

// allocated is how many bytes f allocates, whether they are freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzCheck bounds the memory of checking a text, and of converting one that passes.
func FuzzCheck(f *testing.F) {
	for _, text := range hostile() {
		if len(text) < 64<<10 {
			f.Add([]byte(text))
		}
	}
	for _, text := range useful() {
		if len(text) < 64<<10 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(laughs(3, 30)))
	f.Add([]byte("&a [*a, &b {<<: *a}, *b]"))
	f.Add([]byte("a: &a\n  <<: *a\n"))
	f.Add([]byte("? &a b\n: *a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<20 {
			return
		}
		var err error
		if cost := allocated(func() { err = Check(text) }); cost > 64<<20 {
			t.Errorf("checking %d bytes allocated %d MiB", len(text), cost>>20)
		}
		if err != nil {
			return
		}
		// What passes costs in proportion to its length, and to what its aliases may stand for.
		if cost := allocated(func() { _, _ = yaml.YAMLToJSON(text) }); cost > 160<<20 {
			t.Errorf("converting %d bytes that pass allocated %d MiB", len(text), cost>>20)
		}
	})
}
