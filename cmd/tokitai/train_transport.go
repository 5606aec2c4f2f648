package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tokitai/device"
	"tokitai/device/gpu/cuda"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/hip"
	"tokitai/engine"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
	"tokitai/ranks/courier"
	"tokitai/ranks/launch"
	"tokitai/ranks/mpi"
	"tokitai/ranks/nccl"
)

// Values of --transport.
const (
	autoTransport = "auto" // shared memory on one machine, TCP between several
	shmTransport  = "shm"
	tcpTransport  = "tcp"
	mpiTransport  = "mpi"
	ncclTransport = "nccl"
	rcclTransport = "rccl"
)

var transports = []string{autoTransport, shmTransport, tcpTransport, mpiTransport, ncclTransport, rcclTransport}

// carryCommand is the command of a process that calls a library for a rank.
const carryCommand = "carry"

// carryWindow is how many bytes of a rank a library sends at once, and how many it receives.
const carryWindow = 32 << 20

// checkTransport returns an error unless ranks that meet as l says can use the transport.
func (f *trainFlags) checkTransport(l *launch.Rank) error {
	switch {
	case !slices.Contains(transports, f.transport):
		return wrongUse("--transport is %q, want %s", f.transport, inWords(transports))
	case f.transport == autoTransport:
		return nil
	case f.ranks != launchedRanks:
		return wrongUse("--transport is for ranks that a launcher has started: want --ranks env")
	case f.transport == shmTransport && l.Address != "":
		return wrongUse("--transport shm: the ranks meet at %s, want all on one machine and no %s", l.Address, launch.AddressVariable)
	case f.transport == tcpTransport && l.Address == "":
		return wrongUse("--transport tcp: %s is not set, want HOST:PORT of rank 0, on every rank", launch.AddressVariable)
	}
	return nil
}

// inWords returns names as the end of a sentence: a, b or c.
func inWords(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// meet joins the group of the ranks, and has the transport move its bytes.
func (f *trainFlags) meet(q *engine.Queue, l *launch.Rank) (group ranks.Group, err error) {
	met, err := l.Meet(rankWindow)
	if err != nil {
		return nil, &verdictError{exitUndecided, err}
	}
	defer func() {
		if err != nil {
			met.Close()
		}
	}()
	if err := ranks.Agree(met, []ranks.Fact{{Name: "the transport", Value: f.transport}}); err != nil {
		return nil, stoppedByPeer(err)
	}
	switch f.transport {
	case autoTransport, shmTransport, tcpTransport:
		return met, nil
	}
	self, err := spawn.Self()
	if err != nil {
		return nil, err
	}
	variables, release, err := l.Inherit(os.Environ())
	if err != nil {
		return nil, err
	}
	defer release()
	carried, err := courier.Start(met, courier.Spec{
		What: strings.ToUpper(f.transport), Window: carryWindow,
		Process: spawn.Spec{Program: self, Name: toolName, Args: []string{carryCommand, f.transport, l.Launcher, q.Device().Name()}, Env: variables, JoinsOutput: true, Stderr: os.Stderr},
	})
	if err != nil {
		return nil, stoppedByPeer(err)
	}
	return carried, nil
}

func newCarry() *cobra.Command {
	return &cobra.Command{
		Use:     carryCommand + " TRANSPORT LAUNCHER DEVICE",
		Short:   "move the bytes of a rank",
		Long:    `Move the bytes of a rank of 'tokitai train --transport', which starts this command with a socket as descriptor 3.`,
		Example: `  tokitai train --help`,
		Hidden:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 3 {
				return wrongUse("'tokitai train --transport' starts this command")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return carry(args[0], args[1], args[2]) },
	}
}

// carry is the life of a process that calls a library for a rank.
func carry(transport, launcher, device string) error {
	if err := spawn.CloseOthers(3, launch.Inherited(os.Getenv)); err != nil {
		return err
	}
	conn, err := shm.FromFD(3)
	if err != nil {
		return wrongUse("'tokitai train --transport' starts this command: %v", err)
	}
	return courier.Serve(conn, func() (courier.Library, error) {
		switch transport {
		case mpiTransport:
			return mpi.Open(launcher)
		case ncclTransport:
			return nccl.Open(nccl.NCCL, func() (nccl.Memory, error) { return memoryOf(device, nccl.NCCL, cuda.Table) })
		case rcclTransport:
			return nccl.Open(nccl.RCCL, func() (nccl.Memory, error) { return memoryOf(device, nccl.RCCL, hip.Table) })
		}
		return nil, fmt.Errorf("no library is the transport %q", transport)
	})
}

// memoryOf returns memory of the device of a rank.
func memoryOf(name string, k nccl.Kind, table func() (*driver.Table, error)) (nccl.Memory, error) {
	kind, id, err := device.ParseName(name)
	if err != nil {
		return nil, err
	}
	if kind != k.Device {
		return nil, fmt.Errorf("%s moves bytes between GPUs: want --device %s, got %s", k.Name, k.Device, name)
	}
	index, err := strconv.Atoi(id)
	if err != nil {
		return nil, err
	}
	opened, err := table()
	if err != nil {
		return nil, err
	}
	return nccl.OnDevice(opened, index)
}
