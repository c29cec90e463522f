package pack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder makes a folder with these files. A content that begins with "-> " makes a symbolic link.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// warned returns the warnings about a fleet.yaml in a folder.
func warned(t *testing.T, dir, text string) []string {
	t.Helper()
	doc, err := parseOptions([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, warning := range warningsOf([]byte(text), doc, dir).in("app/fleet.yaml") {
		lines = append(lines, warning.String())
	}
	return lines
}

func TestKeys_WithoutEffectAreWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"no document": {"", nil},
		"all keys are known": {
			"name: a\nlabels: {x: y}\nannotations: {x: y}\ndefaultNamespace: d\nhelm:\n  chart: web\n  values: {any: {key: 1}}\n" +
				"rolloutStrategy: {maxUnavailable: 10%, partitions: [{name: p, clusterSelector: {matchLabels: {any: x}}}]}\n" +
				"diff: {comparePatches: [{operations: [{op: remove, path: /x}]}]}\nimageScans: []\n" +
				"overrideTargets: [{clusterName: x}]\ntargetCustomizations: [{name: x, helm: {values: {any: 1}}, doNotDeploy: true}]\n", nil,
		},
		"keys match without regard to case": {"DEFAULTNAMESPACE: x\nHelm: {ReleaseName: r}\n", nil},
		"unknown key with a near one": {
			"defaultNamespace: x\ndefaultNamspace: y\n",
			[]string{`app/fleet.yaml:2: unknown key "defaultNamspace" is ignored; did you mean "defaultNamespace"?`},
		},
		"unknown key without a near one": {"frobnicate: 1\n", []string{`app/fleet.yaml:1: unknown key "frobnicate" is ignored`}},
		"unknown key below another": {
			"helm:\n  relesaeName: typo\n",
			[]string{`app/fleet.yaml:2: unknown key "helm.relesaeName" is ignored; did you mean "helm.releaseName"?`},
		},
		"unknown key in a list": {
			"targetCustomizations:\n- name: a\n- clusterSelecter: {}\n",
			[]string{`app/fleet.yaml:3: unknown key "targetCustomizations.clusterSelecter" is ignored; did you mean "targetCustomizations.clusterSelector"?`},
		},
		"the warnings are sorted by line": {
			"zzzz: 1\nhelm:\n  yyyy: 1\nxxxx: 1\n",
			[]string{`app/fleet.yaml:1: unknown key "zzzz" is ignored`, `app/fleet.yaml:3: unknown key "helm.yyyy" is ignored`, `app/fleet.yaml:4: unknown key "xxxx" is ignored`},
		},
		"keys of objects' metadata are unknown": {
			"finalizers: [a]\nownerReferences: []\n",
			[]string{`app/fleet.yaml:1: unknown key "finalizers" is ignored`, `app/fleet.yaml:2: unknown key "ownerReferences" is ignored`},
		},
		"keys that only hubs set": {
			"helmOpOptions: {}\ntargetRestrictions: []\ntargets:\n- overwrites: []\n",
			[]string{
				`app/fleet.yaml:1: key "helmOpOptions" is ignored: only hubs set it`,
				`app/fleet.yaml:2: key "targetRestrictions" is ignored: only hubs set it`,
				`app/fleet.yaml:4: key "targets.overwrites" is ignored: only hubs set it`,
			},
		},
		"keys that only the root sets": {
			"createNamespace: false\nhelm: {maxHistory: 3}\ntargets:\n- deleteNamespace: true\n  Helm:\n    skipschemavalidation: true\n" +
				"targetCustomizations:\n- ignore: {conditions: []}\n  keepResources: true\n",
			[]string{
				`app/fleet.yaml:4: key "targets.deleteNamespace" is ignored in a target; set deleteNamespace for all clusters, outside of targets`,
				`app/fleet.yaml:6: key "targets.Helm.skipschemavalidation" is ignored in a target; set helm.skipSchemaValidation for all clusters, outside of targets`,
				`app/fleet.yaml:8: key "targetCustomizations.ignore" is ignored in a target; set ignore for all clusters, outside of targets`,
			},
		},
		"keys behind an alias are checked once": {
			"targets:\n- &a {nmae: x}\n- *a\n", []string{`app/fleet.yaml:2: unknown key "targets.nmae" is ignored; did you mean "targets.name"?`},
		},
		"keys that are merged": {
			"targets:\n- &a {clusterName: x, nmae: y}\n- <<: [*a]\n  name: z\n",
			[]string{`app/fleet.yaml:2: unknown key "targets.nmae" is ignored; did you mean "targets.name"?`},
		},
		"a key that is given twice": {
			"name: a\nname: b\n", []string{`app/fleet.yaml:2: key "name" is given twice: only the last one has an effect`},
		},
		"several documents": {"name: a\n---\nname: b\n", []string{`app/fleet.yaml:2: documents after the first one are ignored`}},
		"imageScans": {
			"name: a\nimageScans: [{image: x, tagName: t}]\n",
			[]string{`app/fleet.yaml:2: imageScans have no effect yet: they are written to the hub, which does not scan images`},
		},
		"forceSyncGeneration": {
			"forceSyncGeneration: 3\n", []string{`app/fleet.yaml:1: forceSyncGeneration is ignored: use the flag --sync-generation`},
		},
		"deleteNamespace": {
			"name: a\ndeleteNamespace: true\n", []string{`app/fleet.yaml:2: deleteNamespace has no effect, and is accepted for compatibility: delete the namespace on the clusters yourself`},
		},
		"deleteNamespace is false": {"deleteNamespace: false\n", nil},
		"values files without chart": {
			"helm:\n  valuesFiles: [v.yaml]\n",
			[]string{`app/fleet.yaml:2: helm.valuesFiles are not read without helm.chart, and do not become resources; set helm.chart to the folder of the chart (. for this one)`},
		},
		"overlays": {
			"yaml: {overlays: [prod]}\ntargets:\n- yaml: {overlays: [typo, prod, ../web, file]}\n",
			[]string{
				`app/fleet.yaml:1: overlay "typo" has no effect, because there is no folder overlays/typo`,
				`app/fleet.yaml:1: overlay "file" has no effect, because there is no folder overlays/file`,
			},
		},
		"chart out of the folder": {
			"helm:\n  chart: ../\n",
			[]string{`app/fleet.yaml:2: chart "../" is not in the folder DIR: its files do not become resources, and agents do not find it; move it there`},
		},
		"chart that is a file": {
			"targets:\n- helm: {chart: web.tgz}\n",
			[]string{`app/fleet.yaml:2: chart "web.tgz" is a file, which is not unpacked, and agents do not find a chart in it; unpack it to a folder`},
		},
		"chart that is a folder":          {"helm: {chart: web}\n", nil},
		"chart that is downloaded":        {"helm: {chart: ../no-such-folder}\n", nil},
		"chart of a repository":           {"helm: {chart: ../, repo: http://h}\n", nil},
		"a long key is shortened":         {strings.Repeat("k", 300) + ": 1\n", []string{`app/fleet.yaml:1: unknown key "` + strings.Repeat("k", 200) + `…" is ignored`}},
		"text that only one parser reads": {"name: a\nx: \"\\x41\"\n", []string{`app/fleet.yaml:2: unknown key "x" is ignored`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"web.tgz": "", "web/Chart.yaml": "", "overlays/prod/x": "", "overlays/file": ""})
			want := []string{}
			for _, line := range test.want {
				want = append(want, strings.ReplaceAll(line, "DIR", dir))
			}
			if diff := cmp.Diff(want, append([]string{}, warned(t, dir, test.text)...)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnings_AreLimited(t *testing.T) {
	var text strings.Builder
	for i := range 2 * maxWarnings {
		fmt.Fprintf(&text, "unknown%d: 1\n", i)
	}
	if got := warned(t, ".", text.String()); len(got) != maxWarnings {
		t.Errorf("%d warnings", len(got))
	}
}

func TestDistance_CountsChangedCharacters(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "ab", 1}, {"abc", "abd", 1}, {"abc", "xabc", 1}, {"ab", "ba", 2}, {"", "abc", 3}} {
		if got := distance(test.from, test.to); got != test.want {
			t.Errorf("%q to %q: %d, want %d", test.from, test.to, got, test.want)
		}
	}
}
