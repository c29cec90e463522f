package expiry

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCluster_CountsRequestsAndVersionsWhatIsWritten(t *testing.T) {
	c := newCluster()
	secrets := c.CoreV1().Secrets("a")
	written, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := written.ResourceVersion
	if written, err = secrets.Update(t.Context(), written, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	read, err := secrets.Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.counted() != 3 || first == "" || first == written.ResourceVersion || read.ResourceVersion != written.ResourceVersion {
		t.Errorf("%d requests, versions %q, %q, %q", c.counted(), first, written.ResourceVersion, read.ResourceVersion)
	}
}
