-- may ends the script if the user may not run the command with these arguments. Redis checks the rights of a user for
-- each command of a script, and does not undo what earlier commands wrote. So before its first write a script calls may
-- for each other command that follows. Redis before 7 cannot be asked; there a script may end half-way.
local function may(...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(...) then
    local command = string.lower((...))
    local what = command == 'publish' and "' command, or to access its channel" or "' command"
    error({err = "NOPERM this user has no permissions to run the '" .. command .. what})
  end
end
