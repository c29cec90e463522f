// Package bundlefile reads the files of the Bundle verbs. Which Bundle, or which deployment, does this file contain?
//
//	file, standard input ─► Read ─► text ─► ParseBundle      ─► Bundle
//	                                   └──► ParseDeployment  ─► Content, BundleDeployment
//
// A file may come from anybody. Its size, and what its YAML expands to, is checked before it is decoded.
package bundlefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Stdin is the path that means standard input.
const Stdin = "-"

// maxFile is the maximum size of a file in bytes. An API server stores much less.
const maxFile = 32 << 20

// Read returns the text of a file.
func Read(path string, stdin io.Reader) ([]byte, error) {
	source := stdin
	if path != Stdin {
		opened, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading file: %w", err)
		}
		defer opened.Close()
		source = opened
	}
	text, err := io.ReadAll(io.LimitReader(source, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading file: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
	}
	return text, nil
}

// ParseBundle returns the Bundle in a text with one Bundle. It ignores other objects, such as the ImageScans that
// `fleet apply -o -` prints behind a Bundle.
func ParseBundle(text []byte) (*fleet.Bundle, error) {
	found, err := documents(text)
	if err != nil {
		return nil, err
	}
	bundle := &fleet.Bundle{}
	switch exists, err := one(found, "Bundle", bundle); {
	case err != nil:
		return nil, err
	case !exists && len(found) == 0:
		return nil, errors.New("failed to read bundle from file, bundle is empty") // scripts know these texts
	case !exists:
		return nil, fmt.Errorf("the file contains no Bundle (%s), but a %s", fleet.SchemeGroupVersion, found[0].kind())
	case bundle.Name == "":
		return nil, errors.New("the Bundle has no name: set metadata.name")
	}
	return bundle, nil
}

// ParseDeployment returns the Content and the BundleDeployment in a text with one of each, in any order. `fleet target`
// prints such objects.
func ParseDeployment(text []byte) (*fleet.Content, *fleet.BundleDeployment, error) {
	found, err := documents(text)
	if err != nil {
		return nil, nil, err
	}
	content, deployment := &fleet.Content{}, &fleet.BundleDeployment{}
	switch exists, err := one(found, "Content", content); {
	case err != nil:
		return nil, nil, err
	case !exists:
		return nil, nil, errors.New("failed to read content resource from file")
	}
	switch exists, err := one(found, "BundleDeployment", deployment); {
	case err != nil:
		return nil, nil, err
	case !exists:
		return nil, nil, errors.New("failed to read bundledeployment resource from file")
	case deployment.Name == "":
		return nil, nil, errors.New("the BundleDeployment has no name: set metadata.name")
	}
	return content, deployment, nil
}

// document is one YAML document, as JSON.
type document struct {
	number int
	metav1.TypeMeta

	json []byte
}

func (d document) kind() string {
	if d.Kind == "" {
		return "document without a kind"
	}
	return fmt.Sprintf("%s (%s)", d.Kind, d.APIVersion)
}

// documents returns the documents of a text that are not empty.
func documents(text []byte) (found []document, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	budget := yamlbound.ForManifests()
	for number := 1; ; number++ {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err == nil {
			err = budget.Spend(part)
		}
		var converted []byte
		if err == nil {
			// A file with two Bundles and no separator has each key twice.
			converted, err = yaml.YAMLToJSONStrict(part)
		}
		next := document{number: number, json: converted}
		if err == nil && string(converted) != "null" {
			err = json.Unmarshal(converted, &next.TypeMeta)
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d of the file: %w", number, err)
		}
		if string(converted) != "null" {
			found = append(found, next)
		}
	}
}

// one decodes the object of a kind and reports whether there is one. Two are an error.
func one(all []document, kind string, into any) (exists bool, err error) {
	for _, next := range all {
		if next.Kind != kind || next.APIVersion != fleet.SchemeGroupVersion.String() {
			continue
		}
		if exists {
			return false, fmt.Errorf("the file contains more than one %s: keep the one that is meant", kind)
		}
		if err := json.Unmarshal(next.json, into); err != nil {
			return false, fmt.Errorf("reading %s in document %d of the file: %w", kind, next.number, err)
		}
		exists = true
	}
	return exists, nil
}
