// Package clientset creates the typed clients that an agent uses.
//
//	rest.Config ─► New ─► CoreV1, AppsV1, BatchV1, AuthorizationV1
//
// The clientset of client-go has a client for every API and version. Templates of charts find methods by name, so
// the linker keeps all methods of every type that the process may convert to an interface: with client-go's
// clientset, an agent's executable is seven megabytes larger.
package clientset

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	batchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Clientset contains typed clients for the APIs that an agent uses. Its methods have the names of those of client-go.
type Clientset struct {
	core          *corev1.CoreV1Client
	apps          *appsv1.AppsV1Client
	batch         *batchv1.BatchV1Client
	authorization *authorizationv1.AuthorizationV1Client
}

// New returns clients that share the connections of one HTTP client.
func New(config *rest.Config) (*Clientset, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the clients' connection: %w", err)
	}
	return NewWith(config, client)
}

// NewWith returns clients that use an HTTP client made for this config.
func NewWith(config *rest.Config, client *http.Client) (set *Clientset, err error) {
	set = &Clientset{}
	if set.core, err = corev1.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("making the client of API v1: %w", err)
	}
	if set.apps, err = appsv1.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("making the client of API apps/v1: %w", err)
	}
	if set.batch, err = batchv1.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("making the client of API batch/v1: %w", err)
	}
	if set.authorization, err = authorizationv1.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("making the client of API authorization.k8s.io/v1: %w", err)
	}
	return set, nil
}

// CoreV1 returns the client of API v1.
func (c *Clientset) CoreV1() corev1.CoreV1Interface { return c.core }

// AppsV1 returns the client of API apps/v1.
func (c *Clientset) AppsV1() appsv1.AppsV1Interface { return c.apps }

// BatchV1 returns the client of API batch/v1.
func (c *Clientset) BatchV1() batchv1.BatchV1Interface { return c.batch }

// AuthorizationV1 returns the client of API authorization.k8s.io/v1.
func (c *Clientset) AuthorizationV1() authorizationv1.AuthorizationV1Interface {
	return c.authorization
}

// Workloads returns the clients for a library that requires the interface of client-go, but reads only pods, Services,
// claims and the workloads of apps/v1 and batch/v1. Its other methods panic.
func (c *Clientset) Workloads() kubernetes.Interface { return workloads{Clientset: c} }

// workloads has two embedded fields, so that the methods of Clientset win over those of the nil interface.
type workloads struct {
	*Clientset
	others
}

// others contains the methods of all other clients, one level deeper than Clientset's.
type others struct{ kubernetes.Interface }
