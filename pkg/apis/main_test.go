// Package apis_test puts the API to a real API server: it takes what the recorded
// objects hold, loses nothing of it, and refuses what the specification refuses.
package apis_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/dev/plane"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	recordedFolder = "../../testdata/recorded"
	crdFolder      = "../../charts/fleet-crd/crd-bases"
)

var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	strict     = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
)

var control = plane.Share(plane.Options{BeforeControllers: installCRDs})

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

// hub is a client of an API server with our CRDs.
func hub(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func installCRDs(ctx context.Context, cluster *plane.Cluster) error {
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return err
	}
	objects, err := readFolder(crdFolder)
	if err != nil {
		return err
	}
	for _, crd := range objects {
		if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			return fmt.Errorf("creating CRD %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range objects {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			found, err := client.Resource(crds).Get(ctx, crd.GetName(), metav1.GetOptions{})
			return err == nil && crdCondition(found, "Established") == "True", err
		})
		if err != nil {
			return fmt.Errorf("waiting for CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

func crdCondition(crd *unstructured.Unstructured, conditionType string) string {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions") // none is the answer where there are none
	for _, condition := range conditions {
		if condition := condition.(map[string]any); condition["type"] == conditionType {
			return condition["status"].(string)
		}
	}
	return ""
}

// recorded returns all recorded objects of our kinds.
func recorded(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := readFolder(filepath.Join(recordedFolder, "hub"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GroupVersionKind().Group != fleet.GroupName
	})
}

// readFolder reads every document of every YAML file in a folder.
func readFolder(folder string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		objects, err := readFile(path)
		found = append(found, objects...)
		return err
	})
	return found, err
}

func readFile(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var found []*unstructured.Unstructured
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		object := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal(part, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		found = append(found, object)
	}
}

// resource is the client for objects of a kind in a namespace, which is made if missing.
func resource(t *testing.T, kind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client := hub(t)
	all := client.Resource(fleet.SchemeGroupVersion.WithResource(strings.ToLower(kind) + "s"))
	if kind == "Content" {
		return all
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}
	if _, err := client.Resource(namespaces).Create(t.Context(), object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return all.Namespace(namespace)
}

// object builds one of our objects from the YAML of its fields.
func object(t *testing.T, kind, fields string) *unstructured.Unstructured {
	t.Helper()
	made := &unstructured.Unstructured{}
	if err := utilyaml.Unmarshal([]byte(fields), &made.Object); err != nil {
		t.Fatal(err)
	}
	if made.Object == nil {
		made.Object = map[string]any{}
	}
	made.SetGroupVersionKind(fleet.SchemeGroupVersion.WithKind(kind))
	made.SetGenerateName("test-")
	return made
}
