package faults_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
)

func TestRead_ParsesPaths(t *testing.T) {
	tests := map[string]struct {
		method, url string
		want        faults.Request
		text        string
		writes      bool
	}{
		"get an object in a namespace": {
			method: "GET", url: "/api/v1/namespaces/ws/secrets/s1",
			want: faults.Request{Verb: "get", Resource: "secrets", Namespace: "ws", Name: "s1"}, text: "get secrets ws/s1",
		},
		"list a namespace": {
			method: "GET", url: "/api/v1/namespaces/ws/secrets?limit=500",
			want: faults.Request{Verb: "list", Resource: "secrets", Namespace: "ws"}, text: "list secrets in ws",
		},
		"list all namespaces of a resource": {
			method: "GET", url: "/apis/fleet.cattle.io/v1alpha1/clusters",
			want: faults.Request{Verb: "list", Group: "fleet.cattle.io", Resource: "clusters"}, text: "list clusters",
		},
		"watch": {
			method: "GET", url: "/apis/fleet.cattle.io/v1alpha1/clusters?watch=true&resourceVersion=7",
			want: faults.Request{Verb: "watch", Group: "fleet.cattle.io", Resource: "clusters", Version: "7"}, text: "watch clusters",
		},
		"watch that starts with all objects": {
			method: "GET", url: "/apis/fleet.cattle.io/v1alpha1/clusters?watch=true&sendInitialEvents=true&resourceVersion=7",
			want: faults.Request{Verb: "watch", Group: "fleet.cattle.io", Resource: "clusters"}, text: "watch clusters",
		},
		"watch one object": {
			method: "GET", url: "/api/v1/namespaces/ws/secrets?watch=1&fieldSelector=metadata.name%3Dc-1",
			want: faults.Request{Verb: "watch", Resource: "secrets", Namespace: "ws", Name: "c-1"}, text: "watch secrets ws/c-1",
		},
		"create: no name in the path": {
			method: "POST", url: "/api/v1/namespaces/ws/secrets",
			want: faults.Request{Verb: "create", Resource: "secrets", Namespace: "ws"}, text: "create secrets in ws", writes: true,
		},
		"subresource": {
			method: "PATCH", url: "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/clusters/east/status",
			want: faults.Request{Verb: "patch", Group: "fleet.cattle.io", Resource: "clusters/status", Namespace: "ws", Name: "east"},
			text: "patch clusters/status ws/east", writes: true,
		},
		"create a token": {
			method: "POST", url: "/api/v1/namespaces/ws/serviceaccounts/a/token",
			want: faults.Request{Verb: "create", Resource: "serviceaccounts/token", Namespace: "ws", Name: "a"},
			text: "create serviceaccounts/token ws/a", writes: true,
		},
		"Namespace object": {
			method: "DELETE", url: "/api/v1/namespaces/ws",
			want: faults.Request{Verb: "delete", Resource: "namespaces", Name: "ws"}, text: "delete namespaces ws", writes: true,
		},
		"finalize a Namespace": {
			method: "PUT", url: "/api/v1/namespaces/ws/finalize",
			want: faults.Request{Verb: "update", Resource: "namespaces/finalize", Name: "ws"}, text: "update namespaces/finalize ws", writes: true,
		},
		"list Namespaces": {
			method: "GET", url: "/api/v1/namespaces", want: faults.Request{Verb: "list", Resource: "namespaces"}, text: "list namespaces",
		},
		"cluster-scoped object": {
			method: "PUT", url: "/apis/rbac.authorization.k8s.io/v1/clusterroles/r",
			want: faults.Request{Verb: "update", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "r"}, text: "update clusterroles r", writes: true,
		},
		"deletecollection": {
			method: "DELETE", url: "/api/v1/namespaces/ws/secrets",
			want: faults.Request{Verb: "deletecollection", Resource: "secrets", Namespace: "ws"}, text: "deletecollection secrets in ws", writes: true,
		},
		"discovery": {
			method: "GET", url: "/apis/fleet.cattle.io/v1alpha1", want: faults.Request{Verb: "get", Group: ""}, text: "get /apis/fleet.cattle.io/v1alpha1",
		},
		"health": {method: "GET", url: "/readyz", want: faults.Request{Verb: "get"}, text: "get /readyz"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			address, err := url.Parse("https://hub" + test.url)
			if err != nil {
				t.Fatal(err)
			}
			got := faults.Read(&http.Request{Method: test.method, URL: address})
			test.want.Path = address.Path
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.String() != test.text || got.Writes() != test.writes {
				t.Errorf("%q, writes %v", got, got.Writes())
			}
		})
	}
}
