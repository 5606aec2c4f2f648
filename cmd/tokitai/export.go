package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tokitai/train"
)

func newExport() *cobra.Command {
	var biases bool
	c := &cobra.Command{
		Use:   "export RUN FOLDER",
		Short: "write a run's newest checkpoint as a folder that other programs read",
		Long: `Write the newest checkpoint of a run, or the checkpoint in a file, as a folder that other
programs read: of a decoder, one of the library transformers, in the precision of the run; of
a network of features, network.tkp1, with the moments of its optimizer, and arch.json.
'tokitai train --set start=FOLDER' begins with the weights of either.

Classes of transformers have no place for the biases by which routers of mixtures with balance
choose experts. Such a run is refused, unless --biases says to write them all the same:
tokitai reads them, and transformers chooses experts without them.`,
		Example: `  tokitai export run folder`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[1] == "" {
				return wrongUse("%d arguments, want 2: a run and the folder to write", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeFolders,
		RunE: func(c *cobra.Command, args []string) error {
			if err := train.Export(args[0], args[1], biases); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "written: %s\n", args[1])
			return err
		},
	}
	c.Flags().BoolVar(&biases, "biases", false, "write biases of routers, which transformers does not read")
	return c
}
