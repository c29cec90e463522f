package deploy

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
		"no error":                          {nil, Succeeded},
		"any error is tried again":          {errors.New("connection refused"), Retried},
		"one that nothing heals is not":     {classify(errors.New("YAML parse error on a.yaml")), Failed},
		"nor when it is in another's words": {fmt.Errorf("deploying: %w", classify(errors.New("YAML parse error on a.yaml"))), Failed},
		"dependencies will come":            {&dependencyError{waiting: []string{"b"}}, Retried},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(test.err); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
