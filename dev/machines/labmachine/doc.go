// Package labmachine reconciles LabMachines: step by step it brings the machine at the machine host, the Node and the
// LabMachine to the state that the Machine wants.
//
//	LabMachine, Machine, Cluster, status at the host, Node ─► Decide ─► one Outcome ─► act
//
//	waiting ─► finalizer ─► create ─► bootstrapping ─► Node's providerID ─► spec.providerID ─► status.provisioned
//	                           ▲            │ fails
//	                           └── delete ◄─┘ after a delay
//
// The ID of the machine is the UID of the LabMachine, so a machine is created once however often its creation is
// requested, and a recreated LabMachine gets another machine. No step relies on an earlier one of the same process: a
// provider that is killed continues where it was. A machine that was provisioned is never created again.
//
// The host cannot be watched. It is asked again after a delay that grows with the time that the machine already takes.
package labmachine
