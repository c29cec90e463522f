package usage

import "time"

// Meter measures the processor time of a step.
type Meter struct {
	controller, simulator int
	at                    Used
}

// Used is the processor time of the controller, and of the process with all simulated agents.
type Used struct{ Controller, Simulator time.Duration }

// NewMeter starts to measure two processes.
func NewMeter(controller, simulator int) (Meter, error) {
	m := Meter{controller: controller, simulator: simulator}
	var err error
	m.at, err = m.read()
	return m, err
}

func (m Meter) read() (now Used, err error) {
	if now.Controller, err = ProcessorTime(m.controller); err != nil {
		return now, err
	}
	now.Simulator, err = ProcessorTime(m.simulator)
	return now, err
}

// Used returns what the processes have used since the meter was started.
func (m Meter) Used() (Used, error) {
	now, err := m.read()
	return Used{Controller: now.Controller - m.at.Controller, Simulator: now.Simulator - m.at.Simulator}, err
}
