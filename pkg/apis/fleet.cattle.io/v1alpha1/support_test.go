package v1alpha1_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	recordedFolder = "../../../../testdata/recorded"
	crdFolder      = "../../../../charts/fleet-crd/crd-bases"
)

// document is one object of a recorded file.
type document struct {
	where  string // file and place in it
	text   []byte // JSON
	object map[string]any
}

func (d document) kind() string   { return fmt.Sprint(d.object["kind"]) }
func (d document) isFleets() bool { return d.object["apiVersion"] == "fleet.cattle.io/v1alpha1" }
func (d document) metadata() string {
	metadata, _ := d.object["metadata"].(map[string]any)
	return fmt.Sprintf("%v/%v", metadata["namespace"], metadata["name"])
}

// recordedObjects reads every recorded object of the group fleet.cattle.io.
func recordedObjects(t *testing.T) []document {
	t.Helper()
	var found []document
	err := filepath.WalkDir(recordedFolder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || filepath.Base(filepath.Dir(path)) == "crds" {
			return err
		}
		for _, doc := range readDocuments(t, path) {
			if doc.isFleets() {
				found = append(found, doc)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readDocuments(t *testing.T, path string) []document {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var found []document
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		asJSON, err := utilyaml.ToJSON(part)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		doc := document{where: fmt.Sprintf("%s[%d]", filepath.Base(path), len(found)), text: asJSON, object: parse(t, asJSON)}
		found = append(found, doc)
	}
}

func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// differences lists where two JSON values differ, as "path: left -> right", with
// <absent> for what only one of them has.
func differences(path string, left, right any) []string {
	leftObject, ok1 := left.(map[string]any)
	rightObject, ok2 := right.(map[string]any)
	if ok1 && ok2 {
		return objectDifferences(path, leftObject, rightObject)
	}
	leftList, ok1 := left.([]any)
	rightList, ok2 := right.([]any)
	if ok1 && ok2 && len(leftList) == len(rightList) {
		var found []string
		for i := range leftList {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), leftList[i], rightList[i])...)
		}
		return found
	}
	if cmp.Equal(left, right) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v -> %v", path, left, right)}
}

type absent struct{}

func (absent) String() string { return "<absent>" }

func objectDifferences(path string, left, right map[string]any) []string {
	keys := map[string]bool{}
	for key := range left {
		keys[key] = true
	}
	for key := range right {
		keys[key] = true
	}
	var found []string
	for _, key := range sorted(keys) {
		inLeft, ok := left[key]
		if !ok {
			inLeft = absent{}
		}
		inRight, ok := right[key]
		if !ok {
			inRight = absent{}
		}
		found = append(found, differences(path+"."+key, inLeft, inRight)...)
	}
	return found
}

func sorted(keys map[string]bool) []string {
	list := make([]string, 0, len(keys))
	for key := range keys {
		list = append(list, key)
	}
	sort.Strings(list)
	return list
}
