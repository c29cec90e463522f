package gather

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestLastChange(t *testing.T) {
	created := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(subresource string, after time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Subresource: subresource, Time: &metav1.Time{Time: created.Add(after)}}
	}
	for name, test := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   time.Duration
	}{
		"no managed fields: its creation":     {nil, 0},
		"changed twice: the later change":     {[]metav1.ManagedFieldsEntry{entry("", time.Hour), entry("", time.Minute)}, time.Hour},
		"a status is not a change":            {[]metav1.ManagedFieldsEntry{entry("", time.Minute), entry("status", time.Hour)}, time.Minute},
		"an entry without a time is left out": {[]metav1.ManagedFieldsEntry{{}, entry("", time.Minute)}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: created}, ManagedFields: test.fields}}
			if got := lastChange(bundle); !got.Equal(created.Add(test.want)) {
				t.Errorf("changed %s after its creation, want %s", got.Sub(created), test.want)
			}
		})
	}
}
