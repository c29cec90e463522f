package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// original creates a ConfigMap on the hub, to be copied.
func (l *lab) original(name string) {
	l.t.Helper()
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().ConfigMaps(l.Name).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
		return err
	})
}

// copyingThem returns options and a change that copy ConfigMaps and Secrets.
func copyingThem(namespace string, names ...string) (fleet.BundleDeploymentOptions, func(*fleet.BundleDeployment)) {
	options := deploytest.InNamespace(namespace)
	for _, name := range names {
		kind := "ConfigMap"
		if strings.HasPrefix(name, "secret") {
			kind = "Secret"
		}
		options.DownstreamResources = append(options.DownstreamResources, fleet.DownstreamResource{Kind: kind, Name: name})
	}
	return options, func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration = 1 }
}

func TestCopyChangedDownstream_IsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copy-heals")
	l.original("settings")
	l.create(func(ctx context.Context) error {
		_, err := l.HubCore.CoreV1().Secrets(l.Name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"},
			StringData: map[string]string{"a": "b"}}, metav1.CreateOptions{})
		return err
	})
	l.start()
	options, generation := copyingThem(l.Name, "settings", "secret")
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: generation})
	l.expectStatus("x", released(l.Name+"/x:1"))
	asOnTheHub := func() string {
		configMap := l.field("configmaps", "settings", dig("data", "a")) + l.field("configmaps", "settings", dig("metadata", "labels", fleet.LabelBundleDeployment))
		secret := l.field("secrets", "secret", dig("data", "a")) + l.field("secrets", "secret", dig("metadata", "labels", fleet.LabelBundleDeployment))
		if configMap != "bx" || secret != "Yg==x" {
			return "the copies are " + configMap + " and " + secret
		}
		return ""
	}
	for _, change := range []func(){
		func() { l.remove("secrets", "secret") },
		func() { l.edit("configmaps", "settings", `{"data":{"a":"edited"}}`) },
		func() { l.edit("secrets", "secret", `{"data":{"a":null,"c":"Yg=="},"metadata":{"labels":null}}`) },
		func() { l.remove("configmaps", "settings") },
		func() { // while no agent is there
			l.halt()
			l.edit("configmaps", "settings", `{"data":{"a":"edited"}}`)
			l.remove("secrets", "secret")
			l.start()
		},
	} {
		change()
		l.eventually(asOnTheHub)
	}
	// Additional metadata of a copy stays.
	l.edit("configmaps", "settings", `{"metadata":{"annotations":{"theirs":"kept"}}}`)
	l.edit("secrets", "secret", `{"data":{"a":"ZQ=="}}`)
	l.eventually(asOnTheHub)
	if got := l.field("configmaps", "settings", dig("metadata", "annotations", "theirs")); got != "kept" {
		t.Errorf("an annotation of another writer is %s", got)
	}
	l.expectStatus("x", released(l.Name+"/x:1"))
	if strings.Contains(l.log(), "Yg==") {
		t.Error("a Secret is in the log")
	}
}

func TestUnrestorableCopy_IsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copy-denied")
	own := l.Name + "-own"
	l.original("settings")
	l.tenant("tenant", own)
	l.start()
	options, generation := copyingThem(own, "settings")
	options.ServiceAccount = "tenant"
	no := false
	options.CreateNamespace = &no
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: generation})
	l.expectStatus("x", ready)
	if err := l.East.RbacV1().RoleBindings(own).Delete(t.Context(), "tenant", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + l.Name + ":tenant",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: own, Verb: "create", Resource: "configmaps"},
		}}
		review, err := l.East.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed {
			return fmt.Sprint("the tenant may still create ConfigMaps ", err)
		}
		return ""
	})
	if err := l.East.CoreV1().ConfigMaps(own).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		return says(conditions.Ready, "is forbidden: User")(bd) + modified("configmap.v1 "+own+"/settings missing")(bd)
	})
	if l.configMapIsThere(own, "settings") {
		t.Error("the agent did for the tenant what it may not do")
	}
	l.tenant("tenant", own)
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("salut"), Options: options, Change: generation}) // a change is a reason to try at once
	l.expectStatus("x", ready)
	l.eventually(func() string {
		if !l.configMapIsThere(own, "settings") {
			return "the copy is not there"
		}
		return ""
	})
}

// Copies of deleted BundleDeployments do not stay, also if no agent has seen the deletion, and if no release shows that
// there was a BundleDeployment. Copies that are to stay do.
func TestBundleDeploymentDeleted_CopiesGo(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"seen": false, "unseen": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "copy-goes-"+name)
			l.interval = shortInterval
			apply := func(name string, files map[string]string, keep bool) {
				l.original(name + "-copy")
				options, generation := copyingThem(l.Name, name+"-copy")
				options.KeepResources = keep
				l.apply(bundle{Name: name, Files: files, Options: options, Change: generation})
			}
			failing := deploytest.With(deploytest.HelloFiles("hi"), map[string]string{"templates/cm.yaml": `{{ fail "no" }}`})
			copies := func(want string) {
				t.Helper()
				l.eventually(func() string {
					var there []string
					for _, name := range []string{"again", "failed", "kept", "stays"} {
						if l.configMapIsThere(l.Name, name+"-copy") {
							there = append(there, name)
						}
					}
					if got := strings.Join(there, " "); got != want {
						return fmt.Sprintf("the copies are those of %q, want %q", got, want)
					}
					return ""
				})
			}
			l.start()
			apply("again", deploytest.HelloFiles("hi"), false)
			apply("kept", deploytest.HelloFiles("hi"), true)
			apply("stays", deploytest.HelloFiles("hi"), false)
			apply("failed", failing, false)
			for _, installed := range []string{"again", "kept", "stays"} {
				l.expectStatus(installed, ready)
			}
			copies("again failed kept stays")
			l.delete("kept")
			l.expectNoRelease(l.Name, "kept")
			if away {
				l.halt()
			}
			l.delete("failed")
			l.delete("again")
			l.apply(bundle{Name: "again", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			if away {
				l.start()
			}
			l.expectStatus("again", ready)
			copies("kept stays")
		})
	}
}

// A ConfigMap stays if it moves from the manifests to downstreamResources and back. The next process finds the label of the copy
// that it was.
func TestObjectMovesBetweenManifestsAndCopies_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t, "copy-moves")
	l.original("settings")
	l.start()
	files := deploytest.With(deploytest.HelloFiles("hi"), map[string]string{
		"templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: {{ .Values.greeting }}}\n",
	})
	inManifests := func(greeting string, generation int64) {
		files["values.yaml"] = "greeting: " + greeting + "\n"
		l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name),
			Change: func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration = generation }})
	}
	expect := func(revision, data string) {
		t.Helper()
		l.expectStatus("x", released(l.Name+"/x:"+revision))
		if got := l.field("configmaps", "settings", dig("data", "a")); got != data {
			t.Fatalf("revision %s: the ConfigMap has %q, want %q", revision, got, data)
		}
	}
	inManifests("one", 0)
	expect("1", "one")
	options, generation := copyingThem(l.Name, "settings")
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: options, Change: generation})
	expect("2", "b")
	inManifests("three", 2)
	expect("3", "three")
	l.halt()
	l.start()
	inManifests("four", 2)
	expect("4", "four")
}
