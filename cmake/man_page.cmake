# Makes one man page from the --help of the command.
#   cmake -DHELP2MAN=... -DTOOL=tessera -DCOMMAND=run -DSUMMARY=... -DVERSION=... -DINCLUDE=file -DOUTPUT=tessera-run.1
#   -P man_page.cmake
set(name tessera)
set(help --help)
if(COMMAND)
  set(name tessera-${COMMAND})
  set(help "${COMMAND} --help")
endif()
set(include)
if(EXISTS ${INCLUDE})
  set(include --include=${INCLUDE})
endif()
execute_process(
  COMMAND ${HELP2MAN} --no-info "--name=${SUMMARY}" "--help-option=${help}" --version-string=${VERSION} ${include} ${TOOL}
  OUTPUT_VARIABLE page COMMAND_ERROR_IS_FATAL ANY)
# help2man makes the title from the program's name, which all pages share.
string(TOUPPER ${name} title)
string(REGEX REPLACE "\n\\.TH TESSERA " "\n.TH ${title} " page "${page}")
string(REGEX REPLACE "\n\\.SH NAME\ntessera " "\n.SH NAME\n${name} " page "${page}")
file(WRITE ${OUTPUT} "${page}")
