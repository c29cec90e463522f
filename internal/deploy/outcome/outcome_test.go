package outcome

import (
	"errors"
	"fmt"
	"testing"
)

func TestOutcomeOf(t *testing.T) {
	tests := map[string]struct {
		err  error
		want Outcome
	}{
		"no error":                                 {nil, Succeeded},
		"any error is retried":                     {errors.New("connection refused"), Retried},
		"permanent failure is not retried":         {Classify(errors.New("YAML parse error on a.yaml")), Failed},
		"wrapped permanent failure is not retried": {fmt.Errorf("deploying: %w", Classify(errors.New("YAML parse error on a.yaml"))), Failed},
		"missing dependencies are retried":         {&DependencyError{Waiting: []string{"b"}}, Retried},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.err); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
