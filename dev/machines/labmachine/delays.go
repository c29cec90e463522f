package labmachine

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

const (
	// pollMin and pollMax limit the delay until the machine host or the Node is asked again.
	pollMin, pollMax = 250 * time.Millisecond, 30 * time.Second
	// retryMin and retryMax limit the delay until a failed machine is deleted and created again.
	retryMin, retryMax = 5 * time.Second, 5 * time.Minute
	// bootstrapTimeout limits the bootstrapping. Seconds are usual.
	bootstrapTimeout = 10 * time.Minute
)

// poll returns a tenth of the time that the machine already takes, within the limits.
func poll(in Input) time.Duration {
	return min(max(in.Now.Sub(bootstrappingSince(in))/10, pollMin), pollMax)
}

// retryDelay doubles with each failed attempt.
func retryDelay(attempts int32) time.Duration {
	delay := retryMin
	for range min(attempts, 10) - 1 {
		delay *= 2
	}
	return min(delay, retryMax)
}

// bootstrappingSince returns when the condition BootstrapSucceeded has changed for the last time.
func bootstrappingSince(in Input) time.Time {
	if known := bootstrapCondition(in); known != nil {
		return known.LastTransitionTime.Time
	}
	return in.Now
}

func bootstrapCondition(in Input) *metav1.Condition {
	return meta.FindStatusCondition(in.LabMachine.Status.Conditions, api.ConditionBootstrapSucceeded)
}
