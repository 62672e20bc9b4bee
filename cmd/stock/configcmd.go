package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/cobra"
	"github.com/spf13/viper"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Example: "  stock config > stock.yaml && stock serve --config stock.yaml\n  STOCK_REDIS_CLUSTER=true stock config --redis-addrs a:6379,b:6379",
		Short:   "Print the configuration that holds, as YAML, with secrets masked",
		Long:    "Print the configuration that would hold for 'stock serve' with the same file, environment and flags.\nIt can be used as a configuration file, once the secrets are filled in.",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, v, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			printConfig(cmd.OutOrStdout(), v)
			return nil
		},
	}
	addConfigFlags(cmd.Flags())
	return cmd
}

// printConfig writes every setting in the order of settings, grouped as in a file.
func printConfig(w io.Writer, v *viper.Viper) {
	group := ""
	for _, s := range settings() {
		indent, name := "", s.key
		if before, after, nested := strings.Cut(s.key, "."); nested {
			if before != group {
				fmt.Fprintf(w, "%s:\n", before)
				group = before
			}
			indent, name = "  ", after
		}
		fmt.Fprintf(w, "%s# %s\n%s%s: %s\n", indent, s.help, indent, name, shown(s, v))
	}
}

func shown(s setting, v *viper.Viper) string {
	switch s.value.(type) {
	case []string:
		quoted := make([]string, 0)
		for _, item := range v.GetStringSlice(s.key) {
			quoted = append(quoted, fmt.Sprintf("%q", item))
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case string:
		text := v.GetString(s.key)
		if s.secret {
			text = masked(s.key, text)
		}
		return fmt.Sprintf("%q", text)
	default:
		return v.GetString(s.key)
	}
}

// masked hides a secret but shows whether it is set, and of the DSN everything but the password. Another secret that happens to look
// like a DSN is not taken for one.
func masked(key, secret string) string {
	if secret == "" {
		return ""
	}
	if key != "mysql.dsn" {
		return "***"
	}
	dsn, err := mysql.ParseDSN(secret)
	if err != nil {
		return "***"
	}
	if dsn.Passwd != "" {
		dsn.Passwd = "***"
	}
	return dsn.FormatDSN()
}
