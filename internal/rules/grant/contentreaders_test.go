package grant_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The account carries the annotations by which the reader bindings are computed.
func TestGrantedAccount_MayReadContents(t *testing.T) {
	in := grantInput(found(), asked)
	for _, child := range grant.Decide(in).Children {
		account, is := child.(*corev1.ServiceAccount)
		if !is {
			continue
		}
		of, _ := contentreaders.RequestOf(account)
		rulestest.ExpectEqual(t, "request", of, types.NamespacedName{Namespace: in.Request.Namespace, Name: in.Request.Name})
		rulestest.ExpectEqual(t, "Cluster", account.Annotations[fleet.AnnotationCluster], in.Clusters[0].Name)
		rulestest.ExpectEqual(t, "that it may", contentreaders.MayRead(account, in.Request, in.Clusters[0]), true)
		return
	}
	t.Error("a request is given no account")
}
