package machines

import (
	"bytes"
	"context"
	_ "embed" // rights.yaml
	"errors"
	"fmt"
	"io"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/plane/capi"
)

// The provider's ServiceAccount.
const (
	Namespace = "lab-system"
	Account   = "machine-provider"
)

const (
	// tokenLife is the lifetime of the provider's token: longer than any control plane of tests and demos runs.
	tokenLife = 30 * 24 * time.Hour
	// pollEvery is the interval between two checks of a state that cannot be watched.
	pollEvery = 20 * time.Millisecond
	// installTimeout limits the installation. A second is usual.
	installTimeout = 2 * time.Minute
)

//go:embed rights.yaml
var rights []byte

// Install applies the provider's CRDs and rights as admin. It returns when the API server serves the CRDs and the core
// of Cluster API, which must be installed, may use them.
func Install(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	objects, err := manifests()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := capi.Apply(ctx, client, objects); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return awaitAggregation(ctx, kube)
}

// manifests returns the CRDs and the rights.
func manifests() ([]*unstructured.Unstructured, error) {
	crds, err := api.CRDs()
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, crd := range crds {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return nil, fmt.Errorf("encoding CRD %s: %w", crd.Name, err)
		}
		delete(content, "status")
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rights), len(rights))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding rights.yaml: %w", err)
		}
		objects = append(objects, object)
	}
}

// awaitAggregation waits until the controller-manager has added the rights to the core's role. Otherwise the core would
// start its watches with a delay.
func awaitAggregation(ctx context.Context, kube kubernetes.Interface) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + capi.Namespace + ":" + capi.Account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "watch", Group: api.GroupVersion().Group, Version: api.GroupVersion().Version, Resource: "labclusters",
		},
	}}
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	if err != nil {
		return fmt.Errorf("waiting until Cluster API's account %s/%s may watch LabClusters: %w", capi.Namespace, capi.Account, err)
	}
	return nil
}

// newToken requests a token of the provider's account.
func newToken(ctx context.Context, config *rest.Config) (string, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("creating a client: %w", err)
	}
	life := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}
	token, err := kube.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, Account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", Namespace, Account, err)
	}
	return token.Status.Token, nil
}
