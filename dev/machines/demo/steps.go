package main

import (
	"bytes"
	"context"
	_ "embed" // clusters.yaml
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// pollEvery is the interval between two reads of a state, and retryEvery between two attempts to write.
	pollEvery  = 100 * time.Millisecond
	retryEvery = 500 * time.Millisecond
	// clusterTimeout limits the wait for clusters. Some ten seconds are usual.
	clusterTimeout = 3 * time.Minute
	// scalePatch sets the replicas of the only MachineDeployment.
	scalePatch = `[{"op":"replace","path":"/spec/topology/workers/machineDeployments/0/replicas","value":2}]`
)

//go:embed clusters.yaml
var clusters []byte

func (d *demo) createClusters(ctx context.Context) error {
	return applyAll(ctx, d.objects, clusters)
}

// applyAll applies YAML documents. It repeats those that are rejected, because CRDs and webhooks may be new.
func applyAll(ctx context.Context, to dynamic.Interface, text []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decoding an object: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		what := object.GetKind() + " " + object.GetName()
		kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		err := until(ctx, "applying "+what, retryEvery, func(ctx context.Context) error {
			_, err := to.Resource(kind).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "demo", Force: true})
			return err
		})
		if err != nil {
			return err
		}
	}
}

// until repeats check until it returns nil.
func until(ctx context.Context, what string, every time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// value returns the key value of a Secret on the hub.
func (d *demo) value(ctx context.Context, name string) ([]byte, error) {
	secret, err := d.world.Hub.Kube.CoreV1().Secrets(framework.Workspace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(secret.Data["value"]) == 0 {
		return nil, fmt.Errorf("reading Secret %s: it has no value yet", name)
	}
	return secret.Data["value"], nil
}

// joinRemote applies the manifest inside the cluster, as its bootstrap data or an administrator would do.
func (d *demo) joinRemote(ctx context.Context) error {
	var manifest, kubeconfig []byte
	err := until(ctx, "waiting for the manifest and the kubeconfig of remote", pollEvery, func(ctx context.Context) (err error) {
		if manifest, err = d.value(ctx, remote+"-fleet-join"); err != nil {
			return err
		}
		kubeconfig, err = d.value(ctx, remote+"-kubeconfig")
		return err
	})
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s: %w", remote, err)
	}
	inside, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	return applyAll(ctx, inside, manifest)
}

func (d *demo) awaitJoined(ctx context.Context) error {
	for _, name := range []string{east, remote} {
		if _, err := d.world.Joined(ctx, framework.Workspace, name, framework.Named(name)); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) deliver(ctx context.Context) error {
	err := d.world.Hub.Create(ctx, client.Bundles, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: "hello"},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "hello"},
			Resources:               []fleet.BundleResource{{Name: "config.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hello\ndata:\n  color: green\n"}},
			Targets:                 []fleet.BundleTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}},
		},
	})
	if err != nil {
		return err
	}
	for _, name := range []string{east, remote} {
		var cluster fleet.Cluster
		if err := d.world.Hub.Get(ctx, client.Clusters, framework.Workspace, name, &cluster); err != nil {
			return err
		}
		if _, err := d.world.Ready(ctx, &cluster, 1); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) capi(resource string) dynamic.ResourceInterface {
	return d.objects.Resource(clusterv1.GroupVersion.WithResource(resource)).Namespace(framework.Workspace)
}

// scale waits until the control plane and both workers run.
func (d *demo) scale(ctx context.Context) error {
	if _, err := d.capi("clusters").Patch(ctx, east, types.JSONPatchType, []byte(scalePatch), metav1.PatchOptions{}); err != nil {
		return err
	}
	return until(ctx, "waiting for three running Machines of east", pollEvery, func(ctx context.Context) error {
		list, err := d.capi("machines").List(ctx, metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabel + "=" + east})
		if err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if phase, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "phase"); phase == string(clusterv1.MachinePhaseRunning) {
				running++
			}
		}
		if running != 3 {
			return fmt.Errorf("%d of %d Machines are running", running, len(list.Items))
		}
		return nil
	})
}

// deleteRemote waits until both Clusters and the machine have ended.
func (d *demo) deleteRemote(ctx context.Context) error {
	if err := d.capi("clusters").Delete(ctx, remote, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, "waiting for the end of remote", pollEvery, func(ctx context.Context) error {
		_, err := d.capi("clusters").Get(ctx, remote, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Cluster of Cluster API still exists: %s", fmt.Sprint(err))
		}
		if err := d.world.Hub.Get(ctx, client.Clusters, framework.Workspace, remote, &fleet.Cluster{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Cluster of Fleet still exists: %s", fmt.Sprint(err))
		}
		left, err := d.host.Machines(ctx)
		if err == nil && len(left) != 3 {
			err = fmt.Errorf("%d machines exist, want the 3 of east", len(left))
		}
		return err
	})
}
