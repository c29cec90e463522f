package controller_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// requests are those that the controllers sent to the hub since the audit log had this length, without watches
// and the lease; the paths of creations with the name of what was to be made.
func requests(g Gomega, since int64) (asked []string) {
	file, err := os.Open(control.Plane(quiet{}).Hub.AuditLog)
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	_, err = file.Seek(since, 0)
	g.Expect(err).NotTo(HaveOccurred())
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ObjectRef        struct{ Name string }
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // the last line is being written
		}
		ours := event.User.Username == "system:serviceaccount:"+system+":"+account
		if ours && event.Verb != "watch" && !strings.Contains(event.RequestURI, "/leases/") {
			path, _, _ := strings.Cut(event.RequestURI, "?")
			if event.Verb == "create" {
				path += "/" + event.ObjectRef.Name
			}
			asked = append(asked, event.Verb+" "+path)
		}
	}
	g.Expect(lines.Err()).NotTo(HaveOccurred())
	return asked
}

func auditLength(g Gomega) int64 {
	found, err := os.Stat(control.Plane(quiet{}).Hub.AuditLog)
	g.Expect(err).NotTo(HaveOccurred())
	return found.Size()
}

// silence is how long a hub asks for nothing between the chores of its first minutes: what an earlier process left
// behind, an agent that does not come. Nothing that comes again and again is as rare.
const silence = 10 * time.Second

func TestHubAtRest_SendsNoRequests(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settled(t, hub, "fleet-local", "local")
	since := int64(0) // the first look is at all there was, and fails
	g.Eventually(func(g Gomega) {
		last := since
		since = auditLength(g)
		g.Expect(requests(g, last)).To(BeEmpty())
	}).WithTimeout(4*patience).WithPolling(silence).Should(Succeed(), "it comes to rest")
}

func TestRequestsOfANewCluster_AreFew(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settled(t, hub, "fleet-local", "local")
	workspace(t, hub, "ws-cost")
	since := auditLength(g)
	namespace := "/api/v1/namespaces/" + newCluster(t, hub, "ws-cost", "c1").Status.Namespace
	g.Eventually(func(g Gomega) {
		var asked []string
		for _, request := range requests(g, since) {
			if strings.Contains(request, "/ws-cost/") || request == "create "+namespace {
				asked = append(asked, request)
			}
		}
		g.Expect(len(asked)).To(BeNumerically(">=", 3))
		// Finalizer, Namespace, status; what comes after is of other controllers.
		g.Expect(asked[:3]).To(Equal([]string{
			"patch /apis/fleet.cattle.io/v1alpha1/namespaces/ws-cost/clusters/c1",
			"create " + namespace,
			"update /apis/fleet.cattle.io/v1alpha1/namespaces/ws-cost/clusters/c1/status",
		}))
	}).WithTimeout(patience).Should(Succeed())
}
