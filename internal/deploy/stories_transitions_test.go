package deploy

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Another program damages the release while the agent runs.
func TestDamagedReleaseSecret_ReleaseIsDeployedAgain(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(*lab){
		"goes":    func(l *lab) { l.remove("configmaps", "x") },
		"changes": func(l *lab) { l.edit("configmaps", "x", `{"data":{"greeting":"edited"}}`) },
	} {
		t.Run("an object "+name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "history-damaged-"+name)
			l.start()
			l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
			l.edit("secrets", release.SecretName("x", 1), `{"data":{"release":"AAAA"}}`)
			happens(l)
			l.eventually(func() string {
				if got := l.field("configmaps", "x", dig("data", "greeting")); got != "hi" {
					return "the object says " + got
				}
				return ""
			})
			l.expectStatus("x", ready)
		})
	}
}

// A program uninstalls a release: it deletes the objects first, and the release when the agent has already looked.
func TestReleaseDeletedAfterItsObjects_ReleaseIsDeployedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "history-later")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.remove("configmaps", "x")
	l.expectStatus("x", says(fleet.ConditionReady, "missing"))
	<-time.After(5 * time.Second) // until no earlier event is left in the queue
	l.remove("secrets", release.SecretName("x", 1))
	l.expectStatus("x", ready)
	if got := l.field("configmaps", "x", dig("data", "greeting")); got != "hi" {
		t.Errorf("the object says %q", got)
	}
}

// A former revision is damaged, and the agent restarts.
func TestDamagedFormerRevision_NextStateIsDeployed(t *testing.T) {
	t.Parallel()
	l := newLab(t, "former-damaged")
	l.start()
	for _, greeting := range []string{"one", "two"} {
		l.apply(bundle{Name: "x", Files: deploytest.HelloFiles(greeting), Options: deploytest.InNamespace(l.Name)})
		l.expectStatus("x", ready)
	}
	l.halt()
	l.edit("secrets", release.SecretName("x", 1), `{"data":{"release":"AAAA"}}`)
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("three"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", released(l.Name+"/x:3"))
}
