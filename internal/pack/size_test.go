package pack

import (
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestLargeBundle_IsCompressed(t *testing.T) {
	empty := &fleet.Bundle{}
	addResources(empty, []file{{"a", nil}}, false)
	room := compressAt - Size(empty) - len(`,"content":""`)
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"one byte less":                {strings.Repeat("a", room-1), content.EncodingPlain},
		"as large":                     {strings.Repeat("a", room), content.EncodingGzip},
		"escapes count with six bytes": {strings.Repeat("<", room/6+1), content.EncodingGzip},
		"few escapes":                  {strings.Repeat("<", room/6-1), content.EncodingPlain},
		"bytes that are not text":      {"\xff", content.EncodingGzip},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := &fleet.Bundle{}
			addResources(bundle, []file{{"a", []byte(test.text)}}, false)
			if got := bundle.Spec.Resources[0].Encoding; got != test.want {
				t.Errorf("encoding %q, want %q", got, test.want)
			}
			if data, err := content.Data(bundle.Spec.Resources[0], content.MaxSize); err != nil || string(data) != test.text {
				t.Errorf("the content differs, error %v", err)
			}
		})
	}
}

func TestOversize_NamesTheLargestFilesAndTheRemedies(t *testing.T) {
	bundle := &fleet.Bundle{}
	bundle.Name = "demo"
	for name, size := range map[string]int{"a": 1 << 10, "b": 5 << 10, "c": 4 << 10, "d": 3 << 10, "e": 2 << 10, "f": 1<<10 + 1, "g": 10} {
		bundle.Spec.Resources = append(bundle.Spec.Resources, fleet.BundleResource{Name: name, Content: strings.Repeat("x", size)})
	}
	got := Oversize(bundle, 8<<10)
	for _, want := range []string{
		"Bundle demo has 17 KiB with 7 files, more than the 8 KiB that fit into an object",
		"b (5 KiB), c (4 KiB), d (3 KiB), e (2 KiB), f (2 KiB);", ".fleetignore", "several paths or folders",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
