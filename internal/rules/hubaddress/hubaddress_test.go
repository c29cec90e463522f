package hubaddress_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestIsUnknown(t *testing.T) {
	conf := rulestest.HubConfig()
	now := hubaddress.Hash(conf)
	registration := func(name string, age time.Duration, told string, changes ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
		r := &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Namespace: rulestest.Workspace, Name: name, CreationTimestamp: rulestest.At(-age), Annotations: map[string]string{annotation.HubAddressAtGrant: told}},
			Status:     fleet.ClusterRegistrationStatus{ClusterName: "east", Granted: true},
		}
		for _, change := range changes {
			change(r)
		}
		return r
	}
	ungranted := func(r *fleet.ClusterRegistration) { r.Status.Granted = false }
	leaving := func(r *fleet.ClusterRegistration) { going := rulestest.At(0); r.DeletionTimestamp = &going }
	ofAnother := func(r *fleet.ClusterRegistration) { r.Status.ClusterName = "west" }
	old, same := []*fleet.ClusterRegistration{registration("a", 1, "old")}, []*fleet.ClusterRegistration{registration("a", 1, now)}
	has := func(serial int64) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) { c.Status.Agent.HubSerial = serial }
	}
	tests := map[string]struct {
		registrations []*fleet.ClusterRegistration
		cluster       func(*fleet.Cluster)
		conf          func(*config.Config)
		published     hubaddress.Published
		want          bool
	}{
		"no registration: known":                                     {},
		"granted with this address: known":                           {registrations: []*fleet.ClusterRegistration{registration("a", 1, now)}},
		"granted with another address: unknown":                      {registrations: []*fleet.ClusterRegistration{registration("a", 1, "old")}, want: true},
		"granted without a recorded address: known":                  {registrations: []*fleet.ClusterRegistration{registration("a", 1, "")}},
		"two registrations, newest with this address: known":         {registrations: []*fleet.ClusterRegistration{registration("a", time.Hour, "old"), registration("b", time.Minute, now)}},
		"two registrations, newest with another address: unknown":    {registrations: []*fleet.ClusterRegistration{registration("b", time.Minute, "old"), registration("a", time.Hour, now)}, want: true},
		"newest registration is not granted: the older one counts":   {registrations: []*fleet.ClusterRegistration{registration("a", time.Hour, "old"), registration("b", time.Minute, now, ungranted)}, want: true},
		"newest registration is being deleted: the older one counts": {registrations: []*fleet.ClusterRegistration{registration("a", time.Hour, "old"), registration("b", time.Minute, now, leaving)}, want: true},
		"registration of another Cluster: ignored":                   {registrations: []*fleet.ClusterRegistration{registration("a", time.Hour, now), registration("b", time.Minute, "old", ofAnother)}},
		"imported agent: known":                                      {registrations: []*fleet.ClusterRegistration{registration("a", 1, "old")}, cluster: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "s" }},
		"operator has annotated this address: known":                 {registrations: []*fleet.ClusterRegistration{registration("a", 1, "old")}, cluster: func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.HubAddress: now} }},
		"operator has annotated another address: unknown":            {registrations: []*fleet.ClusterRegistration{registration("a", 1, "old")}, cluster: func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.HubAddress: "x"} }, want: true},
		"hub without an address: known":                              {registrations: []*fleet.ClusterRegistration{registration("a", 1, "old")}, conf: func(c *config.Config) { c.APIServerURL = "" }},

		"agent has the first document with the address":  {registrations: old, cluster: has(7), published: hubaddress.Published{Hash: now, Serial: 7}},
		"agent has a later document":                     {registrations: old, cluster: has(8), published: hubaddress.Published{Hash: now, Serial: 7}},
		"agent has an earlier document":                  {registrations: same, cluster: has(6), published: hubaddress.Published{Hash: now, Serial: 7}, want: true},
		"the address is not published yet":               {registrations: same, cluster: has(8), published: hubaddress.Published{Hash: "old", Serial: 7}, want: true},
		"no document is published: the grant counts":     {registrations: old, cluster: has(8), want: true},
		"agent that reads no document: the grant counts": {registrations: same, published: hubaddress.Published{Hash: now, Serial: 7}},
		"imported agent with an earlier document":        {cluster: func(c *fleet.Cluster) { has(6)(c); c.Spec.KubeConfigSecret = "s" }, published: hubaddress.Published{Hash: now, Serial: 7}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, conf := rulestest.ACluster(), conf
			if test.cluster != nil {
				test.cluster(cluster)
			}
			if test.conf != nil {
				test.conf(&conf)
			}
			rulestest.ExpectEqual(t, "unknown", hubaddress.IsUnknown(conf, cluster, test.registrations, test.published), test.want)
		})
	}
}

func TestHash(t *testing.T) {
	hash := func(url, ca string) string {
		return hubaddress.Hash(config.Config{APIServerURL: url, APIServerCA: []byte(ca)})
	}
	rulestest.ExpectEqual(t, "no URL", hash("", "CA"), "")
	seen := map[string]bool{}
	for _, h := range []string{hash("https://a", ""), hash("https://a", "CA"), hash("https://aCA", ""), hash("https://b", "CA")} {
		rulestest.ExpectEqual(t, "another address has the hash of one before", seen[h], false)
		seen[h] = true
	}
	rulestest.ExpectEqual(t, "the same again", hash("https://a", "CA"), hash("https://a", "CA"))
}
