package importcluster

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// open returns an importer whose hub and cluster are one server.
func open(t *testing.T, objects ...runtime.Object) (*importer, *clitest.Server, *bytes.Buffer) {
	t.Helper()
	server, set, said := clitest.Start(t, objects...), pflag.NewFlagSet("", pflag.ContinueOnError), &bytes.Buffer{}
	o := &options{flags: access.NewFlags(), name: "east", clusterContext: "east", asIs: true, streams: genericiooptions.IOStreams{ErrOut: said}}
	o.flags.Bind(set)
	if err := set.Parse([]string{"--kubeconfig", server.Kubeconfig}); err != nil {
		t.Fatal(err)
	}
	cluster, err := o.flags.Open()
	if err != nil {
		t.Fatal(err)
	}
	return &importer{options: o, hub: cluster, cluster: cluster, account: importaccount.New(cluster.Core, "fleet-default", "east"), kubeconfig: []byte("x")}, server, said
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "fleet-default", Name: name}
}

func TestInterruptedImport_LeavesTheHubAsItWas(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: named("east-kubeconfig")}
	for name, test := range map[string]struct {
		todo   step
		before []runtime.Object
		writes int
	}{
		"Cluster is created":  {stepCreate, nil, 2},
		"Cluster has existed": {stepChange, []runtime.Object{&fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{ClientID: "c"}}}, 2},
	} {
		for at := range test.writes {
			t.Run(name, func(t *testing.T) {
				i, server, _ := open(t, test.before...)
				ctx, cancel := context.WithCancel(t.Context())
				count := 0
				server.React = func(*clitest.Server, string, *clitest.Object) {
					if count == at {
						cancel()
					}
					count++
				}
				if err := i.write(ctx, test.todo); err == nil || len(server.Writes()) != at+1 {
					t.Errorf("error %v, requests %v", err, server.Writes())
				}
				i.undo(t.Context())
				cluster := server.Get(&fleet.Cluster{ObjectMeta: named("east")})
				if server.Get(secret) != nil || (cluster != nil) != (test.before != nil) {
					t.Errorf("requests %v", server.Writes())
				}
				if cluster == nil {
					return
				}
				spec, _ := cluster.Object["spec"].(map[string]any)
				if _, found := spec["kubeConfigSecret"]; found || spec["clientID"] != "c" {
					t.Errorf("spec %v", spec)
				}
			})
		}
	}
}

func TestSecretThatAppears_IsNotOverwritten(t *testing.T) {
	i, server, _ := open(t, &corev1.Secret{ObjectMeta: named("east-kubeconfig")})
	err := i.write(t.Context(), stepCreate)
	if exit.CodeOf(err) != exit.Refused || len(server.Writes()) != 1 {
		t.Errorf("error %v, requests %v", err, server.Writes())
	}
}

func TestAgentThatStays_IsNamed(t *testing.T) {
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.Agent}}
	for name, before := range map[string]bool{"of the import": false, "of before": true} {
		t.Run(name, func(t *testing.T) {
			i, server, said := open(t)
			if before {
				server.Put(agent)
			}
			if err := i.write(t.Context(), stepCreate); err != nil {
				t.Fatal(err)
			}
			server.Put(agent)
			i.undo(t.Context())
			if got := strings.Contains(said.String(), "kubectl --context east delete namespace cattle-fleet-system"); got == before {
				t.Error(said.String())
			}
		})
	}
}
