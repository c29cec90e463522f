package charts_test

import "testing"

func TestFleetGolden(t *testing.T) {
	tests := map[string]string{
		"defaults": "",
	}
	for name, values := range tests {
		t.Run(name, func(t *testing.T) {
			files := mustRender(t, release{chart: "fleet", name: "fleet", namespace: "cattle-fleet-system", values: values})
			expectGolden(t, "fleet/"+name+".golden", one(files))
		})
	}
}
